"use strict";
/* Keys for people who live in this page. All of them are also links and buttons. */
(function () {
    var STORE = "sync_scheduler.keys";
    var waiting = "";

    function isOn() {
        try { return window.localStorage.getItem(STORE) !== "off"; } catch (e) { return true; }
    }
    function remember(value) {
        try { window.localStorage.setItem(STORE, value); } catch (e) { /* stays as it was */ }
    }
    function rows() { return Array.from(document.querySelectorAll("#ss-live [data-row]")); }
    function chosen() { return document.querySelector("#ss-live [data-row].ss-chosen"); }
    function follow(element) { if (element) { element.click(); } }

    function move(step) {
        var all = rows(), at = all.indexOf(chosen());
        var next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
        if (!next) { return; }
        all.forEach(function (row) { row.classList.toggle("ss-chosen", row === next); });
        var link = next.querySelector("th a[href], a[href]");
        if (link) { link.focus({preventScroll: true}); }
        next.scrollIntoView({block: "nearest"});
    }

    function act(names) {
        var places = [chosen(), document.getElementById("ss-live")];
        for (var i = 0; i < places.length; i++) {
            for (var j = 0; places[i] && j < names.length; j++) {
                var found = places[i].querySelector("a[data-action='" + names[j] + "']");
                if (found) { follow(found); return; }
            }
        }
    }

    function help() {
        var template = document.getElementById("ss-keys-help");
        if (!template || document.querySelector("dialog.ss-keys")) { return; }
        var dialog = document.createElement("dialog");
        dialog.className = "ss-keys";
        dialog.appendChild(template.content.cloneNode(true));
        dialog.addEventListener("click", function (event) {
            if (event.target.matches("[data-keys-off]")) { remember("off"); dialog.close(); }
            if (event.target.matches("[data-keys-on]")) { remember("on"); dialog.close(); }
            if (event.target.matches("[data-keys-close]")) { dialog.close(); }
        });
        dialog.addEventListener("close", function () { dialog.remove(); });
        document.body.appendChild(dialog);
        dialog.showModal();
    }

    var PLACES = {n: "now", s: "schedules", r: "runs", d: "letters"};
    var KEYS = {
        "/": function () { var field = document.getElementById("ss-q"); if (field) { field.focus(); } },
        j: function () { move(1); },
        k: function () { move(-1); },
        r: function () { act(["trigger", "retry", "retry-all"]); },
        p: function () { act(["pause", "resume"]); }
    };

    document.addEventListener("keydown", function (event) {
        if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) { return; }
        if (event.target.closest("input, select, textarea, dialog, [contenteditable]")) { return; }
        if (event.key === "?") { event.preventDefault(); help(); return; }
        if (!isOn()) { return; }
        if (waiting === "g") {
            waiting = "";
            if (PLACES[event.key]) {
                event.preventDefault();
                follow(document.querySelector(".ss-places a[data-place='" + PLACES[event.key] + "']"));
            }
            return;
        }
        if (event.key === "g") { waiting = "g"; return; }
        if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
    });
    document.addEventListener("DOMContentLoaded", function () {
        document.querySelectorAll(".ss-keys-hint").forEach(function (hint) { hint.hidden = false; });
    });
}());
