namespace py tide
include "shared.thrift"

/** Height in metres. */
typedef double Metres

struct Reading {
  1: required Metres height,
  2: optional string station = "{",
}
exception NoStation { 1: string name }
const map<string, i32> LIMITS = {
  "low": 1,
  "high": 9,
}
# Reads gauges.
service Gauge extends shared.Base {
  // Latest reading of a station.
  Reading latest(1: string station) throws (1: NoStation missing),
  oneway void reset()
  list<Reading> between(
    1: i64 start,
    2: i64 stop,
  );
}
