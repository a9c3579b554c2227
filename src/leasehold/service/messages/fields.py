"""What stands in the bodies of messages: whole numbers and texts, bounded and such as any store can keep."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.types import Strict

LARGEST = 2**53
"""No whole number in a message is larger: so far any JSON can be trusted."""

_MOST_TEXT = 131_072


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("no NUL character can be stored")
    text.encode()  # neither can half a character: UnicodeEncodeError is a ValueError
    return text


Whole = Annotated[int, Strict(), Field(ge=-LARGEST, le=LARGEST)]
Natural = Annotated[int, Strict(), Field(ge=0, le=LARGEST)]
Id = Annotated[int, Strict(), Field(ge=1, le=LARGEST)]
Moment = Annotated[int, Strict(), Field(ge=-1, le=LARGEST)]
Text = Annotated[str, Strict(), Field(max_length=_MOST_TEXT), AfterValidator(_storable)]
Flag = Annotated[bool, Strict()]
