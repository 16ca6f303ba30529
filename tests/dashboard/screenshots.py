"""Pictures of the dashboard for its page of documentation: `make screenshots`.

A whole service is made for them, with runs, changes and a silent source; each is taken light and dark.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import tempfile
import zlib
from pathlib import Path

import httpx
from playwright.async_api import Page, expect

from database import Database
from tests.automations.engine import Endpoint, endpoint
from tests.dashboard.browsing import launched, read_first_login, settled, sign_in
from tests.dashboard.seeds import Seeded, change_what_is_known, seed
from tests.dashboard.services import running
from tests.monitors.watching import Scanner
from tests.stacks import ROOT, StackProcess

PICTURES = ROOT / "docs" / "images" / "dashboard"
WIDTH = 1200
MOST_BYTES = 100_000
PAGES = {
    "home": "",
    "run": "/runs/{failed}",
    "graph": "/workflows/{workflow}",
    "errors": "/errors?window=1h",
    "monitor": "/monitors/{monitor}?run={changed}",
    "lookup": "/lookup",
    "approvals": "/approvals",
    "account": "/account",
}

# The pixels as numbers of a palette; colours that are not in it become the nearest of those that are.
_REDUCE = """async (data) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
  const times = new Map();
  for (const pixel of pixels) times.set(pixel, (times.get(pixel) ?? 0) + 1);
  const frequent = [...times].sort((a, b) => b[1] - a[1]).map(([pixel]) => pixel);
  // Of the colours that are rare, one of each kind: else a red word among many grey ones is grey too.
  const kinds = new Map(frequent.slice(64).reverse().map((pixel) => [pixel & 0xf0f0f0, pixel]));
  const palette = [...frequent.slice(0, 64), ...[...kinds.values()].reverse()].slice(0, 256);
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const far = (a, b) => parts(a).reduce((sum, part, n) => sum + (part - parts(b)[n]) ** 2, 0);
  const nearest = new Map([...times.keys()].map((pixel) => [pixel,
    palette.reduce((best, one, n) => (far(pixel, one) < far(pixel, palette[best]) ? n : best), 0)]));
  let text = "";
  for (const pixel of pixels) text += String.fromCharCode(nearest.get(pixel));
  return { width: image.width, height: image.height, palette: palette.flatMap(parts), pixels: btoa(text) };
}"""


def encode_png(width: int, height: int, palette: bytes, pixels: bytes) -> bytes:
    """Return a picture in which each pixel is a byte, the number of a colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"PLTE", palette), chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


async def take(page: Page, painter: Page, name: str) -> None:
    """Write a picture of the page as it is."""
    height = await page.evaluate("Math.ceil(document.getElementById('app').getBoundingClientRect().height)")
    await page.set_viewport_size({"width": WIDTH, "height": min(height, 1000)})
    taken = base64.b64encode(await page.screenshot(style="html { scrollbar-gutter: auto; }")).decode()
    made = await painter.evaluate(_REDUCE, taken)
    picture = encode_png(
        made["width"], made["height"], bytes(made["palette"]), base64.b64decode(made["pixels"])
    )
    assert len(picture) <= MOST_BYTES, f"{name} has {len(picture)} bytes"
    (PICTURES / f"{name}.png").write_bytes(picture)
    print(f"{name}.png: {len(picture):,} bytes")


async def take_all(page: Page, seeded: Seeded, changed: str) -> None:
    """Take each page in light and dark."""
    assert page.context.browser is not None
    painter = await page.context.browser.new_page()
    for name, path in PAGES.items():
        await page.set_viewport_size({"width": WIDTH, "height": 700})
        await page.goto(f"/app{path.format(changed=changed, **seeded._asdict())}")
        if name == "lookup":
            await page.get_by_label("Target").fill("8.8.8.8")
            await page.get_by_role("button", name="Look up").click()
            await expect(page.get_by_role("heading", name="Sources asked")).to_be_visible()
        await settled(page)
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await take(page, painter, f"{name}-{scheme}")


async def fill(stack: StackProcess, scanned: Endpoint) -> tuple[Seeded, str]:
    """Let things happen; return what was made, and the run of the monitor that found changes."""
    headers = {"authorization": f"Bearer {stack.api_key}"}
    scanner = Scanner()
    scanned.handler = scanner.handle
    database = Database(stack.record.database_url, name="screenshots")
    await database.open()
    async with (
        endpoint() as called,
        httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=60) as api,
    ):
        seeded = await seed(api, called, runs=60)
        await change_what_is_known(api, database, seeded.monitor, scanner)
        runs = (await api.get(f"/api/monitors/{seeded.monitor}/runs")).json()["runs"]
    await database.close()
    return seeded, next(run["id"] for run in runs if run["changes_detected"])


async def main() -> None:
    """Run a service, let things happen in it, and take the pictures."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vedette-screenshots-") as folder:
        Path(folder).chmod(0o711)
        async with (
            endpoint() as scanned,
            running(Path(folder) / "data", scanned.url) as stack,
            launched() as browser,
        ):
            seeded, changed = await fill(stack, scanned)
            context = await browser.new_context(base_url=stack.url, bypass_csp=True)
            await sign_in(context, read_first_login(stack))
            await take_all(await context.new_page(), seeded, changed)


if __name__ == "__main__":
    asyncio.run(main())
