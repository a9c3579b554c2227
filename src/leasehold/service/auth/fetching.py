"""How is a JSON document fetched from elsewhere? With bounds on its size and on the time that it takes."""

import asyncio
import json
from functools import cache

import httpx2

TIMEOUT_S = 5.0
MOST_BYTES = 1_048_576


class FetchError(Exception):
    """A document cannot be had, or is none; says why, without anything of its content."""


async def fetch_json(url: str) -> object:
    """Fetch the JSON document at a URL. Redirections are not followed: keys are where the metadata say.

    Raises FetchError, after `TIMEOUT_S` at the latest.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return json.loads(await _fetch(url))
    except TimeoutError:
        raise FetchError(f"no answer within {TIMEOUT_S:.0f} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise FetchError(f"no answer: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        raise FetchError("the answer is no JSON") from None


_certificates = cache(httpx2.create_ssl_context)
"""Those that the system trusts; loading them takes so long that it is for a thread, and for once."""


async def _fetch(url: str) -> bytes:
    """Read the body of a good answer, up to a size."""
    client = httpx2.AsyncClient(verify=await asyncio.to_thread(_certificates), timeout=TIMEOUT_S)
    async with client, client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != httpx2.codes.OK:
            raise FetchError(f"the answer is {response.status_code}")
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                raise FetchError(f"the answer is longer than {MOST_BYTES} bytes")
        return bytes(body)
