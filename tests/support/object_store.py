"""A small S3 server in this process: what reading and writing rows asks of one, kept in memory."""

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET = "bucket"
KEYS = "right:secret"


class ObjectStore(ThreadingHTTPServer):
    """Objects of one bucket. An upload in parts is an object once it is completed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.asked: list[str] = []

    def uri(self, key: str = "", bucket: str = BUCKET, keys: str = KEYS) -> str:
        options = f"endpoint_override=127.0.0.1:{self.server_port}&scheme=http&region=us-east-1"
        return f"s3://{keys}@{bucket}/{key}?{options}"


class _Handler(BaseHTTPRequestHandler):
    server: ObjectStore
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer would wait until its headers are acknowledged

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _locate(self) -> tuple[str, dict[str, str]] | None:
        """The key and the options of a request; None if it is refused."""
        parts = urlsplit(self.path)
        options = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        self.server.asked.append(f"{self.command} {key}")
        self.body = self._read()
        if f"Credential={KEYS.partition(':')[0]}/" not in self.headers.get("Authorization", ""):
            self._fail(403, "AccessDenied", "Access Denied")
        elif bucket != BUCKET:
            self._fail(404, "NoSuchBucket", "The specified bucket does not exist")
        else:
            return key, options
        return None

    def _read(self) -> bytes:
        """The body, out of the chunks it may be sent in, and out of those that carry a checksum inside of these."""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b"".join(_chunks(self.rfile))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_wrapped = "STREAMING" in self.headers.get("x-amz-content-sha256", "")
        return b"".join(_chunks(io.BytesIO(body), has_trailer=True)) if is_wrapped else body

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _fail(self, status: int, code: str, message: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())

    def do_HEAD(self) -> None:
        if (found := self._locate()) is None:
            return
        key, _ = found
        if key and key not in self.server.objects:
            self._fail(404, "NoSuchKey", "The specified key does not exist")
            return
        length = str(len(self.server.objects.get(key, b"")))
        self._answer(200, Content_Length=length, ETag='"1"', Last_Modified="Mon, 16 Nov 2026 10:00:00 GMT")

    def do_GET(self) -> None:
        if (found := self._locate()) is None:
            return
        key, options = found
        if not key:
            self._list(options)
        elif key not in self.server.objects:
            self._fail(404, "NoSuchKey", "The specified key does not exist")
        else:
            content = self.server.objects[key]
            wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if wanted is None:
                self._answer(200, content)
                return
            start, end = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
            self._answer(206, content[start : end + 1], Content_Range=f"bytes {start}-{end}/{len(content)}")

    def _list(self, options: dict[str, str]) -> None:
        prefix, delimiter = options.get("prefix", ""), options.get("delimiter", "")
        files, folders = [], {}
        for key in sorted(key for key in self.server.objects if key.startswith(prefix)):
            rest, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if cut:
                folders[f"{prefix}{rest}{cut}"] = None
            else:
                files.append(key)
        when = "2026-11-16T10:00:00.000Z"
        listed = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
            f"<Size>{len(self.server.objects[key])}</Size></Contents>"
            for key in files
        ) + "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        count = f"<KeyCount>{len(files) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._answer(200, f"<ListBucketResult>{count}{listed}</ListBucketResult>".encode())

    def do_PUT(self) -> None:
        if (found := self._locate()) is None:
            return
        key, options = found
        if "uploadId" in options:
            self.server.uploads[options["uploadId"]][int(options["partNumber"])] = self.body
        else:
            self.server.objects[key] = self.body
        self._answer(200, ETag='"1"')

    def do_POST(self) -> None:
        if (found := self._locate()) is None:
            return
        key, options = found
        if "delete" in options:
            for deleted in re.findall("<Key>(.*?)</Key>", self.body.decode()):
                self.server.objects.pop(unescape(deleted), None)
            self._answer(200, b"<DeleteResult></DeleteResult>")
            return
        if "uploads" in options:
            name = str(len(self.server.uploads))
            self.server.uploads[name] = {}
            where = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
            self._answer(200, f"<InitiateMultipartUploadResult>{where}</InitiateMultipartUploadResult>".encode())
            return
        parts = self.server.uploads.pop(options["uploadId"])
        self.server.objects[key] = b"".join(parts[number] for number in sorted(parts))
        self._answer(200, b"<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        if (found := self._locate()) is None:
            return
        self.server.objects.pop(found[0], None)
        self._answer(204)


def _chunks(source: IO[bytes], has_trailer: bool = False) -> Iterator[bytes]:
    """What stands behind each length, up to a length of 0."""
    while length := int(source.readline().partition(b";")[0], 16):
        yield source.read(length)
        source.readline()
    if not has_trailer:
        source.readline()


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """The server while a test runs."""
    with ObjectStore() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
