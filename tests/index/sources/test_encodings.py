from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.sources.encodings import decoded, readable_part
from tests.support.code_documents import documents
from tests.support.files import write_file

JAPANESE = "/* 設定ファイルを読み込む。 */\nint load(void) { return 0; }\n"
FRENCH = "# Règle l'arrêt après une durée de 10 °C\ndef arrêt(): pass\n"
RUSSIAN = "# Загрузить файл настроек и вернуть их значения\ndef load(): pass\n"
KOREAN = "// 설정 파일을 읽어서 결과를 반환한다\nint load(void) { return 0; }\n"
CHINESE = "// 读取配置文件并返回结果\nint load(void) { return 0; }\n"


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (JAPANESE, "cp932"),
        (JAPANESE.replace("\n", "\r\n"), "cp932"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        ("読込ﾌｧｲﾙ名ﾘｽﾄ", "iso2022_jp_ext"),
        (FRENCH, "cp1252"),
        ("// Größe “außen” – übrig…\n", "cp1252"),
        ("s = '\xff'\n", "latin-1"),
        *((text, "utf-8-sig") for text in (JAPANESE, FRENCH, "int a;\n")),
        *((text, "utf-16") for text in (JAPANESE, RUSSIAN, "int a;\r\n")),
        *(("int a; // é\r\n", codec) for codec in ("utf-16-le", "utf-16-be")),
        (JAPANESE, "utf-32"),
        (f"# -*- coding: koi8-r -*-\n{RUSSIAN}", "koi8-r"),
        ("#!/usr/bin/ruby\n# encoding: big5\n# 讀取設定檔\n", "big5"),
        # Without a declaration, by the characters that a language has most of.
        *((RUSSIAN, codec) for codec in ("cp1251", "koi8-r", "koi8-u", "cp866")),
        ("# Завантажити файл налаштувань і повернути їх значення\n", "koi8-u"),
        *((CHINESE, codec) for codec in ("gb2312", "gbk", "gb18030")),
        ("// 讀取設定檔並傳回結果\nint load(void);\n", "big5"),
        *((KOREAN, codec) for codec in ("euc_kr", "cp949")),
        ("/* 大文節数, 小文節 */\nint count;\n", "euc_jp"),
        ("/* Διαβάζει το αρχείο ρυθμίσεων και επιστρέφει */\n", "cp1253"),
    ],
)
def test_text_whose_encoding_can_be_told(text: str, codec: str) -> None:
    assert decoded(text.encode(codec)) == text


@pytest.mark.parametrize(
    "content",
    [
        # Another alphabet than those that can be told, and too little of one.
        "/* حمّل ملف الإعدادات ثم أعد النتيجة */\nint load(void);\n".encode("cp1256"),
        "// файл\nint load(void);\n".encode("cp1251"),
        "// 配置\nint load(void);\n".encode("gb18030"),
        # UTF-8 with a byte that was altered, or cut off.
        f"{JAPANESE}{FRENCH}".encode() + b"\xff",
        FRENCH.encode() + "é".encode()[:1],
        # No text.
        codecs.BOM_UTF16_LE + bytes(range(1, 200)),
        "int a;".encode("utf-16")[:-1],
        "int a;\0\x01 µµ".encode("utf-16-le") + b"\xff\xff",
        b"\x89PNG\r\n\x1a\n\x04\x05\xe9",
        # A codec that is none of text, and one that the file is not in.
        b"# coding: rot13\n# \x81\n",
        b"# coding: cp932\n# caf\xe9\n",
    ],
)
def test_what_cannot_be_told_is_left_out(content: bytes) -> None:
    assert decoded(content) is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"int a; // \xb9\xfe\xb9 and \xff\nint b;\n", "int a; // \ufffd and \ufffd\nint b;\n"),
        # A set of characters that the codec does not know stands between two that it does.
        (
            b'a = "\x1b$B!{\x1b(B"\nb = "\x1b$(O!,\x1b(B"\nc = 1\n',
            'a = "○"\nb = "\ufffd!,"\nc = 1\n',
        ),
        (b"\xb9\xfe\xb9\xfe int a;", None),
        (b"int a;\x01 \xff int b; int c;", None),
    ],
)
def test_what_can_be_read_of_a_text_that_cannot_be_told(content: bytes, text: str | None) -> None:
    assert decoded(content) is None
    assert readable_part(content) == text


@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_as_utf8_first(content: bytes) -> None:
    text = decoded(content)
    marks = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        expected = content.decode()
    except UnicodeDecodeError:
        assert text is None or not set(text) & set(map(chr, range(8)))
    else:
        assert text == expected or content.startswith(marks) or b"\0" in content


def test_definitions_of_files_in_other_encodings(tmp_path: Path) -> None:
    write_file(tmp_path / "load.c", JAPANESE.encode("cp932"))
    write_file(tmp_path / "stop.py", FRENCH.encode("cp1252"))
    write_file(tmp_path / "wide.c", JAPANESE.replace("\n", "\r\n").encode("utf-16"))

    assert [
        (each.title, each.summary, each.location.start_line) for each in documents(tmp_path)
    ] == [
        ("load", "設定ファイルを読み込む。", 2),
        ("arrêt", "", 2),
        ("load", "設定ファイルを読み込む。", 2),
    ]
