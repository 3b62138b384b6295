"""Pictures that answer questions themselves: read, made as small as the model sees them, and shown patch by patch."""

import asyncio
import io
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from PIL import ExifTags, Image, ImageOps

from pursuit.queries import QuerySet
from pursuit.web.serving.problems import Outdated, Refused

MOST_BYTES = 5_000_000
"""Of a picture that somebody sends."""
MOST_PIXELS = 30_000_000
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
SHOWN_SIZE = 320
"""About how wide and high a picture is shown, at least."""
HIDDEN = (196, 203, 212)
"""The colour of what was not looked at: a grey with some blue in it, which no grey picture has."""

MARGIN = 8
"""A picture is averaged down to about this many times the size that the model looks at, and resampled from there."""
BAND_PIXELS = 2_000_000
"""How many pixels of a large picture have their colours converted at a time."""
DECODER = ThreadPoolExecutor(1, "pictures")
"""One picture at a time, always in the same thread: each thread would keep memory of its own, and those who answer
others would wait."""


@dataclass(frozen=True)
class Picture:
    """A picture as a model sees it."""

    pixels: np.ndarray  # (channels, height, width), between the pixel range of the query set

    @classmethod
    def read(cls, data: bytes, query_set: QuerySet, like: np.ndarray | None = None) -> "Picture":
        """A picture file, cut to the shape that the model looks at and made as small; raises Refused if it cannot be
        read. `like` are pictures (N, channels, height, width) of the same kind: where these are bright on dark and the
        picture is dark on bright, or the other way round, it is inverted."""
        channels, height, width = _shape(query_set)
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Refused(f"The picture has more than {MOST_PIXELS // 1_000_000} million pixels: send less.")
                reduced = _reduced(image, "L" if channels == 1 else "RGB", MARGIN * max(height, width))
                small = ImageOps.fit(ImageOps.exif_transpose(reduced), (width, height))
        except Refused:
            raise
        except Exception:  # decoders raise whatever a broken file leads them to
            raise Refused("This is not a picture that can be read: send a PNG or JPEG file.") from None
        shares = np.asarray(small, dtype=np.float32).reshape(height, width, -1)[..., :channels] / 255
        shares = shares.transpose(2, 0, 1)
        low, high = _range(query_set)
        if like is not None and channels == 1 and _is_bright((like - low) / (high - low)) != _is_bright(shares[None]):
            shares = 1 - shares
        return cls(low + shares * (high - low))

    @classmethod
    async def decode(cls, data: bytes, query_set: QuerySet, like: np.ndarray | None = None) -> "Picture":
        """The same, after the pictures that came before, without a thread that waits."""
        return await asyncio.get_running_loop().run_in_executor(DECODER, cls.read, data, query_set, like)

    @classmethod
    def from_bytes(cls, data: bytes, query_set: QuerySet) -> "Picture":
        pixels, shape = np.frombuffer(zlib.decompress(data), dtype="<f4"), _shape(query_set)
        if pixels.size != int(np.prod(shape)):
            raise Outdated("The model looks at pictures of another size now: begin a new session.")
        return cls(pixels.reshape(shape).copy())

    def to_bytes(self) -> bytes:
        return zlib.compress(self.pixels.astype("<f4").tobytes())

    def patch(self, query_set: QuerySet, query: int) -> list[float]:
        """The pixels that answer a query."""
        assert query_set.patches is not None
        row, column = query_set.patches.corner(query)
        size = query_set.patches.size
        values: list[float] = self.pixels[:, row : row + size, column : column + size].ravel().tolist()
        return values

    def revealed(self, query_set: QuerySet, queries: Iterable[int] | None = None) -> bytes:
        """A PNG file of what the model sees once these queries were answered; without any, of all."""
        assert query_set.patches is not None
        seen = query_set.answers(self.pixels[None]).x[0].numpy()  # (channels, height, width) from -1 to 1
        shades = ((seen + 1) * 127.5).round().clip(0, 255).astype(np.uint8)
        colours = np.repeat(shades, 3, axis=0) if len(shades) == 1 else shades[:3]
        if queries is not None:
            size, is_seen = query_set.patches.size, np.zeros(seen.shape[1:], dtype=bool)
            for row, column in map(query_set.patches.corner, queries):
                is_seen[row : row + size, column : column + size] = True
            hidden = np.array(HIDDEN, dtype=np.uint8)[:, None, None]
            colours = np.where(is_seen, colours, hidden)
        height, width = colours.shape[1:]
        scale = max(1, round(SHOWN_SIZE / max(height, width)))
        image = Image.fromarray(np.ascontiguousarray(colours.transpose(1, 2, 0)))
        file = io.BytesIO()
        image.resize((width * scale, height * scale), Image.Resampling.NEAREST).save(file, "PNG")
        return file.getvalue()


def _reduced(image: Image.Image, mode: str, least: int) -> Image.Image:
    """A picture on white, averaged down as long as its sides have `least` pixels; its orientation is kept. A remainder
    of less than one pixel of the result is left out.

    Beside what the file unpacks to, 120 MB for the largest, only a band of it is held in other colours."""
    image.draft(None, (least, least))  # a JPEG file can be unpacked at a fraction of its size
    factor = max(1, min(image.width, image.height) // least)
    height = factor * max(1, BAND_PIXELS // (factor * image.width))
    small = Image.new(mode, (image.width // factor, image.height // factor))
    width, bottom = factor * small.width, factor * small.height
    for top in range(0, bottom, height):
        band = image.crop((0, top, width, min(top + height, bottom)))
        if image.has_transparency_data:
            band = Image.alpha_composite(Image.new("RGBA", band.size, "white"), band.convert("RGBA"))
        small.paste(band.convert(mode).reduce(factor), (0, top // factor))
    small.getexif()[ExifTags.Base.Orientation] = image.getexif().get(ExifTags.Base.Orientation, 1)
    return small


def _is_bright(shares: np.ndarray) -> bool:
    """Whether the edges of pictures (N, 1, height, width) are bright."""
    edges = [shares[..., 0, :], shares[..., -1, :], shares[..., :, 0], shares[..., :, -1]]
    return float(np.mean([edge.mean() for edge in edges])) > 0.5


def _shape(query_set: QuerySet) -> tuple[int, int, int]:
    if query_set.patches is None or query_set.pixel_range is None:
        raise Refused("This model asks questions, and does not look at pictures.")
    return query_set.patches.image_shape


def _range(query_set: QuerySet) -> tuple[float, float]:
    assert query_set.pixel_range is not None
    return query_set.pixel_range
