"""Sessions that answer themselves from a picture."""

import io
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from httpx import Client
from PIL import ExifTags, Image, ImageOps

from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.pictures import HIDDEN, Picture
from pursuit.web.serving.problems import Refused
from served import begin, move, running, try_move


def png(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels_of(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB").resize((8, 8), Image.Resampling.NEAREST))  # (8, 8, 3)


def is_hidden(content: bytes) -> np.ndarray:
    return (pixels_of(content) == np.array(HIDDEN)).all(axis=2)


def test_a_sample_is_revealed_patch_by_patch(client: Client) -> None:
    samples = client.get("/api/models/digits/samples").json()["samples"]
    assert len(samples) == 3
    whole = client.get(samples[0]["url"])
    assert whole.headers["content-type"] == "image/png"
    session = begin(client, "digits", sample=0)
    picture = f"/api/sessions/{session['id']}/picture.png"
    assert is_hidden(client.get(picture).content).all()
    while not session["state"]["done"]:
        patch = session["state"]["question"]["patch"]
        before = is_hidden(client.get(picture).content)
        session = move(client, session, "reveal")
        before[patch["row"] : patch["row"] + 2, patch["column"] : patch["column"] + 2] = False
        now = client.get(picture).content
        assert (is_hidden(now) == before).all()
        assert (pixels_of(now)[~before] == pixels_of(whole.content)[~before]).all()
    assert session["state"]["image"] == {
        "width": 8,
        "height": 8,
        "n_patches": 49,
        "n_revealed": 6,
        "has_picture": True,
    }
    assert "What was seen" in client.get(f"/api/sessions/{session['id']}/report").text


def test_a_picture_that_is_sent_answers_like_the_sample_it_shows(client: Client, models: ServedModels) -> None:
    sample = client.get("/api/models/digits/samples/1.png").content
    with Image.open(io.BytesIO(sample)) as image:
        inverted = png(ImageOps.invert(image.convert("L")))  # dark on bright, as people draw
    files = {"picture": ("five.png", inverted, "image/png")}
    answer = client.post("/api/sessions/picture", data={"model": "digits", "title": "mine"}, files=files)
    assert answer.status_code == 201
    sent, own = answer.json(), begin(client, "digits", sample=1)
    while not own["state"]["done"]:
        sent, own = move(client, sent, "reveal"), move(client, own, "reveal")
    assert sent["outcome"] == own["outcome"]
    assert [one["question"] for one in sent["state"]["answers"]] == [one["question"] for one in own["state"]["answers"]]


def test_a_picture_outlives_the_server_and_goes_with_its_session(models: ServedModels, database: str) -> None:
    with running(models, database) as client:
        session = move(client, begin(client, "digits", sample=2), "reveal")
        picture = client.get(f"/api/sessions/{session['id']}/picture.png").content
    with running(models, database) as client:
        assert client.get(f"/api/sessions/{session['id']}/picture.png").content == picture
        session = move(client, session, "reveal")
        assert client.delete(f"/api/sessions/{session['id']}").status_code == 204
        assert client.get(f"/api/sessions/{session['id']}/picture.png").status_code == 404


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a picture",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 100,
        png(Image.effect_noise((40, 40), 50))[:400],
        png(Image.new("1", (6000, 6000))),
    ],
)
def test_what_is_not_a_picture_is_refused(client: Client, data: bytes) -> None:
    answer = client.post("/api/sessions/picture", data={"model": "digits"}, files={"picture": ("a.png", data)})
    assert answer.status_code == 422
    assert "picture" in answer.json()["message"]
    assert client.get("/api/sessions").json()["total"] == 0


def test_a_picture_that_would_unpack_to_too_much_is_not_unpacked(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = png(Image.new("1", (9000, 9000)))
    assert len(bomb) < 20_000  # 81 million pixels
    monkeypatch.setattr(ImageOps, "exif_transpose", lambda image: pytest.fail("it is unpacked"))
    with pytest.raises(Refused, match="more than 30 million pixels"):
        Picture.read(bomb, models["digits"].estimator.model_.query_set)


LARGE = (6000, 5000)


def test_a_large_picture_is_seen_as_its_small_copy_is(models: ServedModels) -> None:
    """Averaged down band by band, whatever its colours are, and turned in the end."""
    query_set = models["digits"].estimator.model_.query_set
    small = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8))
    large = small.resize((3001, 2999), Image.Resampling.NEAREST)
    seen = Picture.read(png(small.resize((256, 256), Image.Resampling.NEAREST)), query_set).pixels
    for mode, kind in (("L", "PNG"), ("RGB", "PNG"), ("P", "GIF"), ("L", "JPEG")):
        np.testing.assert_allclose(Picture.read(png(large.convert(mode), kind), query_set).pixels, seen, atol=0.5)
    clear = Image.merge("LA", (Image.new("L", large.size, 0), large))  # black, as opaque as the other is bright
    np.testing.assert_allclose(16 - Picture.read(png(clear), query_set).pixels, seen, atol=0.5)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    turned = Picture.read(png(large, "JPEG", exif=exif), query_set).pixels[0]
    np.testing.assert_allclose(np.rot90(turned), seen[0], atol=0.5)


@pytest.mark.programs
def test_sixteen_of_the_largest_pictures_take_no_gigabytes(model_folders: dict[str, Path], tmp_path: Path) -> None:
    script = """
import io, resource, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from PIL import Image
from pursuit.web.serving.models import load_models
from served import running

with running(load_models([sys.argv[1]]), f"sqlite:///{sys.argv[2]}") as client:
    def send(data):
        return client.post("/api/sessions/picture", data={"model": "digits"}, files={"picture": ("a.png", data)})
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    send((Path(sys.argv[2]).parent / "small.png").read_bytes())
    before, data = peak(), (Path(sys.argv[2]).parent / "large.png").read_bytes()
    with ThreadPoolExecutor(16) as pool:
        assert {answer.status_code for answer in pool.map(send, [data] * 16)} == {201}
    print(peak() - before)
"""
    (tmp_path / "small.png").write_bytes(png(Image.new("1", (60, 50))))
    (tmp_path / "large.png").write_bytes(png(Image.new("1", LARGE)))
    folder = str(model_folders["digits"])
    done = subprocess.run(
        [sys.executable, "-c", script, folder, str(tmp_path / "a.sqlite")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300_000  # kilobytes


def test_who_sends_pictures_lets_nobody_wait(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, read = threading.Event(), Picture.read

    def slow(*arguments: Any) -> Picture:
        assert may_go_on.wait(60)
        return read(*arguments)

    monkeypatch.setattr(Picture, "read", slow)
    files = {"picture": ("a.png", png(Image.new("L", (9, 9))))}
    with ThreadPoolExecutor(16) as pool:
        sent = [
            pool.submit(client.post, "/api/sessions/picture", data={"model": "digits"}, files=files) for _ in "x" * 16
        ]
        session = begin(client)  # while sixteen pictures wait
        move(client, session, "dont_know")
        assert not any(one.done() for one in sent)
        may_go_on.set()
        assert {one.result().status_code for one in sent} == {201}


@pytest.mark.parametrize("error", [MemoryError, RecursionError, IndexError, KeyError, TypeError, ZeroDivisionError])
def test_whatever_a_decoder_raises_is_a_refusal(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(image: Image.Image) -> None:
        raise error("inside")

    monkeypatch.setattr(ImageOps, "exif_transpose", fail)
    with pytest.raises(Refused, match="not a picture that can be read") as refusal:
        Picture.read(png(Image.new("L", (9, 9))), models["digits"].estimator.model_.query_set)
    assert "inside" not in str(refusal.value)


def test_a_picture_that_is_too_large_is_not_read(client: Client) -> None:
    for size in (5_050_000, 9_000_000):
        files = {"picture": ("a.png", b"\x00" * size)}
        answer = client.post("/api/sessions/picture", data={"model": "digits"}, files=files)
        assert answer.status_code in (413, 422)
        assert "too much at once" in answer.json()["message"]


def test_models_that_ask_people_take_no_picture(client: Client) -> None:
    files = {"picture": ("a.png", png(Image.new("L", (9, 9))))}
    answer = client.post("/api/sessions/picture", data={"model": "illness"}, files=files)
    assert answer.status_code == 422
    assert "does not look at pictures" in answer.json()["message"]
    assert client.post("/api/sessions", json={"model": "illness", "sample": 0}).status_code == 404
    assert client.get("/api/models/illness/samples").json() == {"samples": []}
    session = begin(client, "digits")
    assert try_move(client, session, "reveal").status_code == 404


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF"])
def test_pictures_of_every_shape_and_kind_become_what_the_model_sees(models: ServedModels, kind: str) -> None:
    query_set = models["digits"].estimator.model_.query_set
    drawn = Image.new("RGB", (64, 32), "black")
    drawn.paste("white", (32, 0, 64, 32))
    picture = Picture.read(png(drawn, kind), query_set)
    assert picture.pixels.shape == (1, 8, 8)
    assert picture.pixels[..., :3].mean() < 1
    assert picture.pixels[..., 5:].mean() > 15
    again = Picture.from_bytes(picture.to_bytes(), query_set)
    assert (again.pixels == picture.pixels).all()


def test_what_is_transparent_is_white_and_what_lies_on_its_side_is_turned(models: ServedModels) -> None:
    query_set = models["digits"].estimator.model_.query_set
    assert Picture.read(png(Image.new("RGBA", (9, 9), (0, 0, 0, 0))), query_set).pixels.min() == 16
    drawn = Image.new("L", (8, 8), 0)
    drawn.paste(255, (0, 0, 8, 4))  # bright above
    exif = Image.Exif()
    exif[274] = 3  # upside down
    turned = Picture.read(png(drawn, "JPEG", exif=exif, quality=95), query_set).pixels[0]
    assert turned[:3].mean() < 2
    assert turned[5:].mean() > 14


def test_a_picture_of_another_size_is_outdated(models: ServedModels) -> None:
    query_set = models["digits"].estimator.model_.query_set
    with pytest.raises(Exception, match="another size"):
        Picture.from_bytes(Picture(np.zeros((1, 9, 9))).to_bytes(), query_set)
    with pytest.raises(Refused, match="does not look at pictures"):
        Picture.read(png(Image.new("L", (9, 9))), models["illness"].estimator.model_.query_set)
