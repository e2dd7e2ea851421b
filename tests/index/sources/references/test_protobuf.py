"""Protocol Buffers become entries of messages, fields, values and methods."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from purlin.index.sources.references import manual, protobuf
from tests.support.files import write_tree
from tests.support.references import by_id, only_skipped, read_in_linear_time, tokens_in_any_order

YARD = """// Copyright.

syntax = "proto3";
package yard.v1;
import "google/protobuf/duration.proto";

// Manages boats.
service Boats {
  option (yard.host) = "boats; {example}";
  // Builds a boat.
  rpc Build(stream BuildRequest) returns (yard.v1.Boat) {
    option (google.api.http) = { post: "/v1/boats" body: "*" };
  }
  rpc Watch(Boat) returns (stream Boat);
}

/**
 * A boat.
 */
message Boat {
  // Not about the hull.

  // Of which wood
  // it is:
  //   * oak
  repeated string hull = 1 [(yard.rule) = { type: "Wood", max: 3 }];
  optional State state = 2 [default = AFLOAT, deprecated = true];  // Where it is.
  map<string, .yard.v1.Mast.State> masts = 3;
  enum State { AFLOAT = 0; /* In the dock. */ DOCKED = -1; }
  oneof drive {
    // In kilowatts.
    int32 motor = 4;
    Sail sail = 5;
  }
  reserved 6, 7;
  message Keel { bool lead = 1; }
}
message Mast { enum State { UP = 0; DOWN = 1; } required int32 height = 1; }
extend google.protobuf.FieldOptions { string rule = 50001; }
"""


def test_messages_fields_values_and_methods_are_entries(tmp_path: Path) -> None:
    write_tree(tmp_path, {"yard.proto": YARD})
    entries = {key.partition("#")[2]: each for key, each in by_id(tmp_path).items()}
    bodies = {anchor: each.body for anchor, each in entries.items()}

    assert bodies["Boats"] == "service Boats\n\nManages boats."
    assert bodies["Boats.Build"] == (
        "rpc Build(stream BuildRequest) returns (yard.v1.Boat)\n\nBuilds a boat.\n\n"
        "Takes: stream BuildRequest\nReturns: yard.v1.Boat"
    )
    assert "Boats.Watch" in bodies

    assert bodies["Boat"] == "message Boat\n\nA boat."
    assert bodies["Boat.hull"] == (
        "repeated string hull = 1\n\nOf which wood it is:\n\n- oak\n\n"
        "Type: repeated string\nField number: 1\n"
        'Options: (yard.rule) = { type : "Wood", max : 3 }'
    )
    state = entries["Boat.state"]
    assert (state.title, state.context) == ("Boat.state", ("Boat",))
    assert state.fields["page_title"] == "yard.v1"
    # Of two enumerations of one name, the nearest is meant.
    assert state.body == (
        "optional State state = 2\n\nWhere it is.\n\nType: State\nField number: 2\n"
        "Default: AFLOAT\nDeprecated: true\nOptions: default = AFLOAT, deprecated = true\n"
        "One of: AFLOAT, DOCKED"
    )
    assert bodies["Boat.masts"] == (
        "map<string, .yard.v1.Mast.State> masts = 3\n\n"
        "Type: map<string, .yard.v1.Mast.State>\nField number: 3\nOne of: UP, DOWN"
    )
    assert bodies["Boat.State.DOCKED"] == "DOCKED = -1\n\nNumber: -1"
    assert bodies["Boat.State.AFLOAT"] == "AFLOAT = 0\n\nIn the dock.\n\nNumber: 0"
    motor = "int32 motor = 4\n\nIn kilowatts.\n\nType: int32\nField number: 4\nOneof: drive"
    assert bodies["Boat.motor"] == motor
    assert entries["Boat.Keel.lead"].context == ("Boat", "Boat.Keel")
    assert "Required: true" in bodies["Mast.height"]
    assert "Extend: google.protobuf.FieldOptions" in bodies["rule"]


def test_anchors_have_lines() -> None:
    for anchor, line in (("Boats.Build", 11), ("Boat.hull", 26), ("Boat.Keel.lead", 36)):
        assert manual.anchor_line("yard.proto", YARD, anchor) == line
    assert manual.anchor_line("yard.proto", YARD, "Boat.none") is None


def test_other_files_are_no_protocol_buffers(tmp_path: Path) -> None:
    write_tree(tmp_path, {"README.proto": "A message to all; read {this}."})
    assert only_skipped(tmp_path) == (
        "no Protocol Buffers: it declares no message, enumeration or service"
    )


@pytest.mark.parametrize(
    "part",
    [
        *(
            "message A {",
            "// a\n",
            "//\n\n",
            "/*",
            "*/",
            "a = [",
            "int32 a = 1 [ ",
            "enum E{A=1[",
            '"',
        ),
        *("option a = {", "rpc A(", "}", "; // a\n", "map<", "int32 a = 1;", "'\\", "oneof a {"),
    ],
)
def test_hostile_files_take_linear_time(part: str) -> None:
    text = "message T { int32 a = 1; }\nmessage U {" + part * (400_000 // len(part))
    read_in_linear_time(protobuf.html, text)


TOKENS = (
    *("message ", "enum ", "rpc ", "A ", "{", "}", "=", "1"),
    *(";", "[", "]", "//", "/*", "*/", "\n", '"'),
)


@given(tokens_in_any_order(TOKENS))
def test_no_text_breaks_the_reader(text: str) -> None:
    html = protobuf.html("message T { int32 own = 1; }\n" + text)
    assert 'id="T.own"' in html
    assert protobuf.anchor_line(text, "A") is None or "A" in text
