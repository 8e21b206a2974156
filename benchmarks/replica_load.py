"""A load generator that costs little: fixed bytes out, answers counted, one connection per caller.

    python -m benchmarks.replica_load --url http://127.0.0.1:8000 --model m --seconds 5 --callers 64
        [--prompt TEXT] [--max-tokens 50] [--rate 0] [--header 'name: value'] [--uvloop]

Several addresses, with commas between them, share the callers evenly.
Closed loop by default; with `--rate` requests a second are sent on a fixed schedule (open loop) and
latency counts from the scheduled time. Speaks just enough HTTP/1.1 for answers with a length.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from urllib.parse import urlsplit

LAST_ANSWER_S = 60.0


class Run:
    """One run against one address."""

    def __init__(self, args: argparse.Namespace) -> None:
        split = [urlsplit(url) for url in args.url.split(",")]
        self.addresses = [(str(found.hostname), int(found.port or 80)) for found in split]
        body = json.dumps(
            {"model": args.model, "prompt": args.prompt, "max_tokens": args.max_tokens,
             "temperature": 0.0}
        ).encode()  # fmt: skip
        headers = "".join(f"{header}\r\n" for header in args.header)
        self.request = (
            f"POST {args.path} HTTP/1.1\r\nhost: {split[0].hostname}\r\n{headers}"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body
        self.end_s = time.monotonic() + args.seconds
        self.seconds = args.seconds
        self.callers = args.callers
        self.rate = args.rate
        self.codes: Counter[str] = Counter()
        self.latencies_s: list[float] = []

    async def caller(self, number: int) -> None:
        """One connection, one request on it at a time."""
        begun_s = self.end_s - self.seconds
        turn = number
        reader, writer = await asyncio.open_connection(
            *self.addresses[number % len(self.addresses)]
        )
        while (now_s := time.monotonic()) < self.end_s:
            if self.rate:
                due_s = begun_s + turn / self.rate
                if due_s >= self.end_s:
                    break
                turn += self.callers
                await asyncio.sleep(max(0.0, due_s - now_s))
                now_s = due_s
            writer.write(self.request)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            length = next(int(v.split(b":")[1]) for v in lines if v.startswith(b"content-length"))
            await reader.readexactly(length)
            self.codes[head[9:12].decode()] += 1
            self.latencies_s.append(time.monotonic() - now_s)
        writer.close()

    async def report(self) -> dict[str, object]:
        """Runs, then says what came back."""
        started_s = time.monotonic()
        callers = asyncio.gather(*(self.caller(n) for n in range(self.callers)))
        await asyncio.wait_for(callers, self.seconds + LAST_ANSWER_S)
        took_s = time.monotonic() - started_s
        ordered = sorted(self.latencies_s)
        count = len(ordered)
        return {
            "requests": count,
            "rps": count / took_s,
            "codes": dict(self.codes),
            "p50_ms": round(1000 * ordered[count // 2], 3) if count else None,
            "p99_ms": round(1000 * ordered[int(0.99 * count)], 3) if count else None,
        }


def main() -> None:
    """Parses, runs, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--path", default="/v1/completions")
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", default="Correct: She go to school every days.\nFixed:")
    parser.add_argument("--max-tokens", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--header", action="append", default=[])
    parser.add_argument("--uvloop", action="store_true", help="an event loop that costs half")
    args = parser.parse_args()
    factory = None
    if args.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(Run(args).report())))


if __name__ == "__main__":
    main()
