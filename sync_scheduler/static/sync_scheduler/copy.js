"use strict";
/* The copy button of the traceback; it stays hidden where the browser cannot copy. */
document.addEventListener("DOMContentLoaded", function () {
    if (!navigator.clipboard) { return; }
    function show() { document.querySelectorAll("[data-copy]").forEach(function (b) { b.hidden = false; }); }
    document.addEventListener("click", function (event) {
        var button = event.target.closest("[data-copy]");
        if (button) { navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent); }
    });
    document.addEventListener("ss:refreshed", show);
    show();
});
