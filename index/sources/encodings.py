"""Decode texts, those too that are not UTF-8 if their encoding can be told.

What cannot be told is left out: text in the wrong letters is found by nobody, and data is no text.
"""

from __future__ import annotations

import codecs
import re

from purlin.index.errors import InvalidInput

# Longer byte order marks come first: UTF-32's begins like UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# As Python, Ruby, Emacs, Vim and XML declare it, in one of the first two lines.
_DECLARED = re.compile(rb"coding\s{0,9}[:=]\s{0,9}[\"']?([\w.-]{1,40})")
_DECLARING_LINES, _DECLARING_BYTES = 2, 1024

# In a shorter file, a stray zero byte is as likely as UTF-16 without a mark.
_MIN_UNMARKED_BYTES = 16

# ISO-2022-JP with the half-width kana that programs on Windows write into it.
ESCAPED_JAPANESE = "iso2022_jp_ext"

# What browsers read under these names.
_AS_BROWSERS = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso2022_jp": ESCAPED_JAPANESE}
_TEXT_CODEC = re.compile(
    r"utf-8-sig|iso8859-\d+|cp125\d|cp866|cp932|cp949|koi8-[ru]|shift_jis|"
    r"euc[_-](jp|kr)|iso2022_jp_ext|gb2312|gbk|gb18030|big5"
)

# The most frequent syllables and characters of translations and comments of programs.
_SYLLABLES = (
    "다이니는을를하의합에로지스도수가형터경인용입정있시한리사서기트"
    "습드해우반자환은할래고라전함일으면위오버설원어데성계들부표만과"
)  # fmt: skip
_KANJI = (
    "入力定見設使用動有効合起場数切替環境変実行補表示確名在左右中次時前可"
    "候現字一無認正色情報文上下能語開者画必要選択的処理関値変換出大小初期"
)  # fmt: skip
_SIMPLIFIED = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学"
    "如都同现当没动面起看定分还进好小部其些主样理心本前开但因只从想实日者意无力它与长把机第此已工使情明性知全又关点正外将两高间由问最重并"
    "文体相被利等或新制果加合回特代内信表化位次度名条件系数据结反目量建接置输入函初始返值读写取存调类型错误检查判断处理字符串线程路径链列"
    "键显示图配息换版序块复移除搜索找选启项标参格式变循环请求响应器加载默认设删更"
)
_TRADITIONAL = (
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作里用道行所然家種事成方多經麼去法學"
    "如都同現當沒動面起看定分還進好小部其些主樣理心本前開但因只從想實日者意無力它與長把機第此已工使情明性知全又關點正外將兩高間由問最重並"
    "文體相被利等或新制果加合回特代內信表化位次度名條件系數據結反目量建接置輸入函初始返值讀寫取存調類型錯誤檢查判斷處理字符串線程路徑鏈列"
    "鍵顯示圖配息換版序塊復移除搜尋找選啟項標參格式變循環請求回應器載入預設檔案刪更資料"
)

# Line ends, tabs, form feeds, escapes and the end mark of DOS occur in text.
_CONTROL = re.compile(r"[\0-\x08\x0e-\x19\x1c-\x1f\x7f]")
# What JSON replies and a store cannot hold: zero characters and halves of surrogate pairs.
NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_ASCII = bytes(range(128))
# ISO-2022-JP changes to Japanese characters and on to others.
_ESCAPED = re.compile(rb"\x1b\$[@B][\x21-\x7e]{2}[^\x1b]*\x1b\([BIJ]")
_FOREIGN = re.compile(r"[^\0-\x7f]+")
_UNREADABLE = re.compile("\ufffd+")
# Comments are a smaller part of code.
MAX_UNREADABLE_SHARE = 0.3
_KANA = re.compile(r"[\u3001-\u30ff]")
_HALF_WIDTH_KANA = re.compile(r"[\uff61-\uff9f]")
# Japanese has more kana than this; what is taken for Japanese by mistake has hardly any.
_MIN_KANA_SHARE = 0.2
# What most of a text in a language is written with, and the least share of these among what is
# beyond ASCII. Read in another encoding, hardly any of them are left.
_COMMON: tuple[tuple[str, str, float], ...] = (
    *((codec, "оеаинтсрвлкмдпузыйья", 0.55) for codec in ("cp1251", "koi8-u", "cp866")),
    ("cp1253", "αοιετσνηυρπκμλςίόάέή", 0.55),
    ("cp1255", "יוהלארתבמשנם", 0.55),
    ("cp949", _SYLLABLES, 0.4),
    ("euc_jp", _KANJI, 0.35),
    ("gb18030", _SIMPLIFIED, 0.35),
    ("big5", _TRADITIONAL, 0.35),
)  # fmt: skip
# Of fewer bytes beyond ASCII, nothing is told; and the runner-up has at most so much of the best share.
_MIN_FOREIGN_BYTES, _RUNNER_UP = 10, 0.75
# Western European text has its letters beyond ASCII alone or in pairs, other scripts in words.
_MAX_WESTERN_RUN = 2


def valid_text(text: str) -> str:
    """Return the text as it is.

    Raises InvalidInput for a byte that is not UTF-8, which a table's text holds as the second half of
    a surrogate pair, and for what an escape in JSON made: another half, or a zero character.
    """
    match = NOT_TEXT.search(text)
    if match is None:
        return text
    if "\udc80" <= match[0] <= "\udcff":
        raise InvalidInput("holds bytes that are not text; save the file as UTF-8")
    raise InvalidInput(
        f"holds the escape \\u{ord(match[0]):04x}, which is no character; remove it, or write both"
        " halves of a surrogate pair"
    )


def decoded(content: bytes) -> str | None:
    """The text of a file, without its byte order mark; None if its encoding cannot be told."""
    content = content.removeprefix(codecs.BOM_UTF8)

    for mark, codec in _MARKS:
        if content.startswith(mark):
            return _strictly(content, codec)

    if b"\0" in content and (unmarked := _unmarked_utf16(content)) is not None:
        return unmarked
    if is_escaped(content):
        return _strictly(content, ESCAPED_JAPANESE)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _other_text(content)


def _unmarked_utf16(content: bytes) -> str | None:
    """The text of a file in UTF-16 without a mark: in most code, most bytes on one side are zero."""
    if len(content) % 2 or len(content) < _MIN_UNMARKED_BYTES:
        return None
    high_first, low_first = content[::2].count(0), content[1::2].count(0)
    if min(high_first, low_first) or 2 * max(high_first, low_first) < len(content) // 2:
        return None
    return _strictly(content, "utf-16-be" if high_first else "utf-16-le")


def is_escaped(content: bytes) -> bool:
    """Whether a text is Japanese in ISO-2022-JP, all of whose bytes are ASCII's, too."""
    return content.isascii() and _ESCAPED.search(content) is not None


def text_codec(declared: str) -> str | None:
    """The codec that browsers use for a declared name; None if it is unknown or not for text."""
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        return None
    name = _AS_BROWSERS.get(name, name)
    return name if _TEXT_CODEC.fullmatch(name) else None


def _other_text(content: bytes) -> str | None:
    """The text of a file that is not UTF-8."""
    if _is_damaged_utf8(content):
        return None

    head = b"\n".join(content[:_DECLARING_BYTES].split(b"\n")[:_DECLARING_LINES])
    declared = _DECLARED.search(head)
    codec = text_codec(declared[1].decode("ascii", "replace")) if declared else None
    codec = codec or _codec_by_characters(content)
    return None if codec is None else _strictly(content, codec)


def readable_part(content: bytes) -> str | None:
    """A text whose encoding cannot be told, with one "\ufffd" for each run that cannot be read.

    None if that would be too much of it, or if it is no text.
    """
    if len(content.translate(None, _ASCII)) > MAX_UNREADABLE_SHARE * len(content):
        return None
    codec = ESCAPED_JAPANESE if is_escaped(content) else "utf-8"
    text = _UNREADABLE.sub("\ufffd", content.decode(codec, errors="replace"))
    return None if _CONTROL.search(text) else text


def other_codec(content: bytes) -> str | None:
    """The codec of text that is not UTF-8 and declares none; None if it cannot be told."""
    return None if _is_damaged_utf8(content) else _codec_by_characters(content)


def _codec_by_characters(content: bytes) -> str | None:
    for codec in ("cp932", "euc_jp"):
        text = _strictly(content, codec)
        if text is not None and _is_japanese(text):
            return codec
    text = _strictly(content, "cp1252")
    if text is not None and _is_western(text):
        return "cp1252"
    return _codec_by_common_characters(content)


def _codec_by_common_characters(content: bytes) -> str | None:
    """The codec in which far more characters are common than in any other; None without one."""
    if len(content.translate(None, _ASCII)) < _MIN_FOREIGN_BYTES:
        return None

    shares = [(0.0, ""), (0.0, "")]
    for codec, common, least in _COMMON:
        text = _strictly(content, codec)
        if text is not None:
            foreign = "".join(_FOREIGN.findall(text))
            share = sum(map(common.__contains__, foreign)) / len(foreign)
            # As a multiple of the least, so that languages with more characters compare.
            shares.append((share / least, codec))

    runner_up, best = sorted(shares)[-2:]
    return best[1] if best[0] >= 1 and runner_up[0] <= _RUNNER_UP * best[0] else None


def _strictly(content: bytes, codec: str) -> str | None:
    try:
        text = content.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def _is_damaged_utf8(content: bytes) -> bool:
    """Whether most bytes beyond ASCII are UTF-8: single bytes were cut or altered."""
    foreign_bytes = content.translate(None, _ASCII)
    decodable = "".join(_FOREIGN.findall(content.decode(errors="ignore")))
    return 2 * len(decodable.encode()) > len(foreign_bytes)


def _is_japanese(text: str) -> bool:
    foreign = "".join(_FOREIGN.findall(text))
    kana_count = len(_KANA.findall(foreign))
    return kana_count > max(_MIN_KANA_SHARE * len(foreign), len(_HALF_WIDTH_KANA.findall(foreign)))


def _is_western(text: str) -> bool:
    lengths = [len(run) for run in _FOREIGN.findall(text)]
    return 2 * sum(length for length in lengths if length > _MAX_WESTERN_RUN) <= sum(lengths)
