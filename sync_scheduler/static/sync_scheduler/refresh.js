"use strict";
/* Reads the page again every few seconds, and soon after something has happened, and puts the changed
   part in place. Without this file the same is done by the link at the foot of the page. */
(function () {
    var SOONEST = 1000;     /* never more often than once a second, */
    var SHARE = 4;          /* and never for more than a fourth of the time */
    var IDLE = 15;          /* seconds between two looks while somebody tells us what happens */

    function boot() {
        var live = document.getElementById("ss-live");
        if (!live || !live.dataset.refresh) { return; }
        var timer = null, isReading = false, isDue = false, readAt = 0, took = 0;
        var toggle = document.querySelector("[data-refresh-toggle]");
        if (toggle) { toggle.hidden = true; }

        function isBusy() {
            var focus = document.activeElement;
            var inField = focus && live.contains(focus) && focus.matches("input, select, textarea");
            return document.hidden || inField || document.querySelector("dialog[open]") !== null ||
                live.querySelector("input[type=checkbox]:checked") !== null ||
                String(window.getSelection ? window.getSelection() : "") !== "";
        }

        function keepOpen(fresh) {
            live.querySelectorAll("details").forEach(function (old, i) {
                var one = fresh.querySelectorAll("details")[i];
                if (one) { one.open = old.open; }
            });
        }

        function put(fresh) {
            var focus = document.activeElement;
            var href = focus && live.contains(focus) ? focus.getAttribute("href") : null;
            var chosen = live.querySelector(".ss-chosen a[href]");
            var chosenHref = chosen ? chosen.getAttribute("href") : null;
            var oldVerdict = live.querySelector("[role=status]");
            var newVerdict = fresh.querySelector("[role=status]");
            keepOpen(fresh);
            /* An unchanged verdict keeps its element, so that it is not read out again. */
            if (oldVerdict && newVerdict && oldVerdict.textContent === newVerdict.textContent) {
                newVerdict.replaceWith(oldVerdict);
            }
            live.replaceChildren.apply(live, Array.from(fresh.childNodes));
            ["refresh", "live"].forEach(function (name) {
                if (fresh.dataset[name]) { live.dataset[name] = fresh.dataset[name]; }
                else { delete live.dataset[name]; }
            });
            [[href, true], [chosenHref, false]].forEach(function (pair) {
                if (!pair[0]) { return; }
                live.querySelectorAll("a[href]").forEach(function (a) {
                    if (a.getAttribute("href") !== pair[0]) { return; }
                    if (pair[1]) { a.focus({preventScroll: true}); }
                    else if (a.closest("[data-row]")) { a.closest("[data-row]").classList.add("ss-chosen"); }
                });
            });
            document.dispatchEvent(new CustomEvent("ss:refreshed"));
        }

        function again() {
            window.clearTimeout(timer);
            if (!live.dataset.refresh) { return; }
            var seconds = Number(live.dataset.refresh);
            if (live.dataset.connected) { seconds = Math.max(seconds, IDLE); }
            timer = window.setTimeout(read, isDue ? wait() : seconds * 1000);
        }

        function wait() {
            return Math.max(readAt + Math.max(SOONEST, SHARE * took) - Date.now(), isBusy() ? SOONEST : 0, 0);
        }

        function soon() {
            if (isDue) { return; }
            isDue = true;
            if (!isReading) { again(); }
        }

        function read() {
            if (isBusy()) { again(); return; }
            isReading = true;
            isDue = false;
            readAt = Date.now();
            /* An answer that does not come must not be waited for until the end of days. */
            var patience = new AbortController();
            var alarm = window.setTimeout(function () { patience.abort(); }, 10000);
            window.fetch(window.location.href, {
                credentials: "same-origin",
                headers: {"X-Requested-With": "fetch"},
                signal: patience.signal
            })
                .then(function (answer) {
                    if (answer.redirected || !answer.ok) { throw new Error("not readable"); }
                    return answer.text();
                })
                .then(function (text) {
                    var page = new DOMParser().parseFromString(text, "text/html");
                    var fresh = page.getElementById("ss-live");
                    live.classList.remove("ss-stale");
                    if (fresh && !isBusy()) {
                        put(document.importNode(fresh, true));
                        document.title = page.title;
                        var foot = document.querySelector(".ss-foot"), newFoot = page.querySelector(".ss-foot time");
                        if (foot && newFoot) { foot.querySelector("time").replaceWith(document.importNode(newFoot, true)); }
                    }
                })
                .catch(function () { live.classList.add("ss-stale"); })
                .then(function () {
                    window.clearTimeout(alarm);
                    took = Date.now() - readAt;
                    isReading = false;
                    again();
                });
        }
        document.addEventListener("ss:changed", soon);
        again();
    }
    if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", boot); } else { boot(); }
}());
