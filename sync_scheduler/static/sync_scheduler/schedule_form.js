"use strict";
/* Shows the fields of the chosen kind only, and what the schedule would do, while one types. The
   server computes it; the button "Check" does the same without this file. */
document.addEventListener("DOMContentLoaded", function () {
    var form = document.getElementById("ss-schedule-form");
    if (!form) { return; }
    var kind = form.elements.kind, timer = null, number = 0;

    function fold() {
        form.querySelectorAll("details.ss-kind").forEach(function (part) {
            part.open = part.dataset.kind === kind.value;
            part.hidden = part.dataset.kind !== kind.value;
        });
    }

    function check() {
        var asked = ++number, data = new FormData(form);
        data.append("_check", "1");
        window.fetch(form.action, {method: "POST", body: data, credentials: "same-origin"})
            .then(function (answer) { return answer.ok ? answer.text() : ""; })
            .then(function (text) {
                if (!text || asked !== number) { return; }
                var page = new DOMParser().parseFromString(text, "text/html");
                var old = document.getElementById("ss-preview"), fresh = page.getElementById("ss-preview");
                var note = page.querySelector("#ss-schedule-form .errornote");
                if (!old || !fresh) { return; }
                if (note && !fresh.textContent.trim()) { fresh.appendChild(note); }
                if (old.innerHTML !== fresh.innerHTML) { old.replaceWith(document.importNode(fresh, true)); }
            });
    }

    form.addEventListener("input", function () {
        fold();
        window.clearTimeout(timer);
        timer = window.setTimeout(check, 400);
    });
    fold();
});
