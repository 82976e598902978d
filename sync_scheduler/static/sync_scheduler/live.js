"use strict";
/* Listens to what happens, and tells the page to read itself again. It knows nothing but that
   something has happened. Where the server refuses, the page goes on by asking every few seconds. */
(function () {
    var KINDS = ["submitted", "skipped", "started", "progress", "retry", "finished", "state", "lost"];
    var AGAIN = 60000;

    function boot() {
        var live = document.getElementById("ss-live");
        if (!live || !live.dataset.live || !window.EventSource) { return; }
        var source = null, timer = null;
        var word = document.querySelector("[data-live-word]");

        function show(connected) {
            if (connected) { live.dataset.connected = "1"; } else { delete live.dataset.connected; }
            if (word) { word.hidden = !connected; }
        }

        function changed() { document.dispatchEvent(new CustomEvent("ss:changed")); }

        function stop() {
            window.clearTimeout(timer);
            if (source) { source.close(); source = null; }
            show(false);
        }

        function listen() {
            stop();
            if (document.hidden || !live.dataset.live) { return; }
            source = new EventSource(live.dataset.live);
            source.onopen = function () { show(true); };
            source.onerror = function () {
                /* The browser comes back by itself, unless it was refused. */
                show(false);
                if (source && source.readyState === EventSource.CLOSED) {
                    stop();
                    timer = window.setTimeout(listen, AGAIN);
                }
            };
            KINDS.forEach(function (kind) { source.addEventListener(kind, changed); });
        }

        document.addEventListener("visibilitychange", function () {
            if (document.hidden) { stop(); } else { listen(); changed(); }
        });
        /* A page that has come to its end has no more news. */
        document.addEventListener("ss:refreshed", function () { if (!live.dataset.live) { stop(); } });
        window.addEventListener("pagehide", stop);
        window.addEventListener("pageshow", function (event) { if (event.persisted) { listen(); } });
        listen();
    }
    if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", boot); } else { boot(); }
}());
