"""Photographs every screen of the admin: `make screenshots`.

A demo shop is filled with a made-up history in a temporary folder, served, and visited with
Chromium in the light, in the dark and at the width of a phone. The pictures go to
.screenshots; the best of them, with --docs, to docs/_static/screens.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "example_project"
PASSWORD = "for-the-photographer"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOOKS = {
    "light": (1280, 800, "light"),
    "dark": (1280, 800, "dark"),
    "phone": (390, 844, "light"),
}
LISTS = {
    "now": "dashboard",
    "schedules": "schedule",
    "runs": "run",
    "dead-letters": "deadletter",
    "nodes": "node",
    "jobs": "joblist",
    "load": "load",
}
BEST = ("now-light", "schedule-light", "run-dark")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / ".screenshots")
    parser.add_argument("--docs", action="store_true", help="copy the best ones to the docs")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("Chromium is not installed (Debian: apt-get install chromium).", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ss-screens-") as folder:
        photograph(chromium, Path(folder), options.out)
    if options.docs:
        target = ROOT / "docs" / "_static" / "screens"
        target.mkdir(parents=True, exist_ok=True)
        for name in BEST:
            shutil.copy(options.out / f"{name}.png", target / f"{name}.png")
    print(f"{len(list(options.out.glob('*.png')))} pictures are in {options.out}")
    return 0


def photograph(chromium: str, folder: Path, out: Path) -> None:
    env = {
        **os.environ,
        "DEMO_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DEMO_ADMIN_PASSWORD": PASSWORD,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLE)]),
    }
    for command in (["migrate", "--verbosity", "0"], ["seed_demo"]):
        subprocess.run([sys.executable, "manage.py", *command], cwd=EXAMPLE, env=env, check=True)
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "made_up_history.py")],
        cwd=EXAMPLE,
        env=env,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    subjects = dict(line.split("=", 1) for line in done.stdout.split())
    port = free_port()
    children = [
        subprocess.Popen(
            [sys.executable, "manage.py", *command],
            cwd=EXAMPLE,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in (["runserver", "--noreload", f"127.0.0.1:{port}"], ["runscheduler"])
    ]
    try:
        wait_until_open(port)
        visit_all(chromium, f"http://127.0.0.1:{port}", subjects, out)
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(20)


def visit_all(chromium: str, address: str, subjects: dict[str, str], out: Path) -> None:
    section = f"{address}/admin/sync_scheduler"
    pages = {name: f"{section}/{model}/" for name, model in LISTS.items()}
    schedule, run = subjects["schedule"], subjects["run"]
    pages |= {
        "schedule": f"{section}/schedule/{schedule}/change/",
        "trigger": f"{section}/schedule/{schedule}/trigger/",
        "pause": f"{section}/schedule/{schedule}/pause/",
        "edit": f"{section}/schedule/{schedule}/edit/",
        "backfill": f"{section}/schedule/{schedule}/backfill/",
        "run": f"{section}/run/{run}/change/",
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for look, (width, height, scheme) in LOOKS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            page = context.new_page()
            log_in(page, address)
            for name, url in pages.items():
                page.goto(url)
                page.screenshot(path=str(out / f"{name}-{look}.png"))
        browser.close()


def log_in(page: Page, address: str) -> None:
    page.goto(f"{address}/admin/login/?next=/admin/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_until_open(port: int) -> None:
    for _ in range(150):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/login/", timeout=2):
                # Let the scheduler take up its work, or every page would say that nothing leads.
                time.sleep(8)
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("The web server did not answer.")


if __name__ == "__main__":
    sys.exit(main())
