from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Kind, Secondary, Skipped, SourceFile
from purlin.index.sources import names, open_source
from purlin.index.sources.code.definitions import MAX_NESTING
from purlin.index.sources.code.languages import BY_SUFFIX, LANGUAGES
from purlin.index.sources.code.repository import files
from purlin.index.sources.code.roles import role
from purlin.index.sources.files import MAX_FILE_BYTES, FileContent, read_bounded, walk
from tests.support.files import write_tree as write
from tests.support.paths import DATA
from tests.support.privileges import unprivileged

CODE_FILES = DATA / "code"

# title, kind, first line, last line, first line of the summary
EXPECTED = {
    "shelf.py": [
        ("widest", "function", 10, 19, "Width of the widest parcel."),
        ("deliver", "function", 23, 29, ""),
        ("Shelf", "class", 32, 64, "Keeps parcels in order of width."),
        ("Shelf.__init__", "method", 38, 40, ""),
        ("Shelf.size", "method", 42, 45, "How many there are."),
        ("Shelf.size", "method", 47, 49, ""),
        ("Shelf.total", "method", 51, 53, ""),
        ("Shelf.Slot", "class", 55, 59, "One place."),
        ("Shelf.Slot.free", "method", 58, 59, ""),
        ("Shelf.pop", "method", 63, 64, ""),
        ("shelf", "module", 1, 7, "A shelf of parcels, for the code reader's tests."),
    ],
    "router.js": [
        ("join", "function", 10, 12, "Joins the parts of a route,"),
        ("matches", "function", 20, 20, "Matches a route against a pattern."),
        ("twice", "function", 23, 23, ""),
        ("Router", "class", 26, 45, "Routes requests."),
        ("Router.constructor", "method", 30, 33, ""),
        ("Router.add", "method", 36, 38, "Adds a route."),
        ("Router.handle", "method", 40, 42, ""),
        ("Router.size2", "method", 44, 44, ""),
        ("Router.clear", "method", 47, 49, ""),
        ("start", "function", 51, 54, ""),
        ("api", "constant", 56, 61, ""),
        ("api.list", "method", 57, 59, ""),
        ("api.remove", "method", 60, 60, ""),
        ("hidden", "function", 64, 64, ""),
        ("router", "module", 63, 63, ""),
    ],
    "queue.ts": [
        ("Job", "interface", 4, 8, "What a job must tell."),
        ("State", "enum", 10, 10, ""),
        ("Queue", "class", 13, 27, "A queue of jobs, oldest first."),
        ("Queue.constructor", "method", 17, 17, ""),
        ("Queue.push", "method", 20, 22, "Adds a job at the end."),
        ("Queue.[Symbol.iterator]", "method", 24, 26, ""),
        ("Worker", "class", 29, 31, ""),
        ("Worker.stop", "method", 30, 30, ""),
        ("sleep", "function", 34, 35, "Waits."),
        ("Retry.Policy.backoff", "function", 38, 40, ""),
        ("default", "function", 43, 45, ""),
    ],
    "badge.tsx": [("Badge", "function", 2, 4, "Shows how many messages wait.")],
    "berth.vue": [
        ("moor", "function", 9, 11, "Ties a boat to its berth."),
        ("label", "function", 13, 13, ""),
        ("methods", "constant", 18, 20, ""),
        ("methods.leave", "method", 19, 19, ""),
        ("berth", "module", 1, 26, ""),
    ],
    "buoy.svelte": [
        ("blink", "function", 6, 8, "Blinks once, whatever the weather."),
        ("buoy", "module", 1, 12, ""),
    ],
    "ring.go": [
        ("Ring", "struct", 13, 16, "Ring holds values of one type."),
        ("Sizer", "interface", 20, 22, "Sizer tells a size."),
        ("pair", "struct", 24, 24, ""),
        ("New", "function", 30, 32, "New makes a ring of n places."),
        ("Ring.Push", "method", 36, 43, "Push puts a value in place of the oldest;"),
        ("pair.sum", "method", 45, 45, ""),
        ("ring", "module", 1, 10, "Package ring keeps the last few values."),
    ],
    "Ledger.java": [
        ("Ledger", "class", 10, 50, "A ledger of entries."),
        ("Ledger.Ledger", "method", 15, 17, ""),
        ("Ledger.sum", "method", 20, 28, "The sum of all entries."),
        ("Ledger.sum", "method", 30, 32, ""),
        ("Ledger.Place", "enum", 35, 39, "Says where it is kept."),
        ("Ledger.Place.durable", "method", 38, 38, ""),
        ("Ledger.Entry", "record", 41, 45, ""),
        ("Ledger.Entry.Entry", "method", 42, 44, ""),
        ("Ledger.Visitor", "interface", 47, 49, ""),
        ("Ledger.Visitor.visit", "method", 48, 48, ""),
    ],
    "mailer.php": [
        ("Mailer", "class", 10, 34, "Sends letters."),
        ("Mailer.__construct", "method", 20, 22, "@param Transport $transport where letters go"),
        ("Mailer.sign", "method", 24, 24, ""),
        ("Mailer.send", "method", 27, 33, "Sends one letter."),
        ("Sender", "interface", 36, 39, ""),
        ("Sender.send", "method", 38, 38, ""),
        ("Logs", "trait", 41, 44, ""),
        ("Logs.log", "method", 43, 43, ""),
        ("Level", "enum", 46, 49, ""),
        ("greet", "function", 53, 56, "Greets by name."),
        ("mailer", "module", 1, 1, ""),
        ("mailer", "module", 51, 51, ""),
    ],
    "garden.rb": [
        ("Garden", "module", 4, 43, "Plants and their beds."),
        ("Garden.Bed", "class", 8, 40, "A bed of plants."),
        ("Garden.Bed.plant", "method", 16, 19, "Plants one more."),
        ("Garden.Bed.empty?", "method", 21, 21, ""),
        ("Garden.Bed.wide", "method", 23, 25, ""),
        ("Garden.Bed.narrow", "method", 28, 30, ""),
        ("Garden.Bed.==", "method", 33, 35, ""),
        ("Garden.Bed.count=", "method", 37, 39, ""),
        ("Garden.Errors.Empty", "class", 42, 42, ""),
        ("water", "function", 48, 50, "Waters everything."),
    ],
    "tank.c": [
        ("EACH_TANK", "macro", 7, 9, ""),
        ("tank", "struct", 12, 15, "What a tank holds."),
        ("pipe_t", "struct", 17, 19, ""),
        ("on_empty", "type", 21, 21, ""),
        ("state", "enum", 23, 23, ""),
        ("NAMES", "constant", 25, 28, ""),
        ("fill", "function", 35, 39, "Fills a tank, as far as it goes."),
        ("print", "function", 43, 43, 'Prints "größe".'),
        ("tank", "module", 1, 6, "Tanks and the water in them."),
        ("tank", "module", 30, 30, ""),
    ],
    "matrix.cpp": [
        ("linear.dense.Matrix", "class", 6, 19, "A matrix in rows."),
        ("linear.dense.Matrix.rows", "method", 12, 12, "How many rows there are."),
        ("linear.dense.Matrix.operator==", "method", 13, 13, ""),
        ("linear.dense.Matrix.Matrix", "method", 21, 24, ""),
        ("linear.dense.Order", "enum", 26, 26, ""),
        ("linear.dense.Row", "type", 28, 28, ""),
        ("linear.dense.add", "function", 31, 33, "Adds two rows."),
        ("Shape.Border.name", "method", 37, 37, ""),
        ("Point", "struct", 39, 42, ""),
    ],
    "Depot.cs": [
        ("Depot", "class", 9, 34, "Keeps crates until Collect is called."),
        ("Depot.Size", "method", 14, 14, ""),
        ("Depot.Depot", "method", 16, 19, ""),
        ("Depot.Take", "method", 23, 23, "Takes a crate in."),
        ("Depot.+", "method", 25, 28, ""),
        ("Depot.Slot", "struct", 30, 33, ""),
        ("IDepot", "interface", 36, 39, ""),
        ("IDepot.Collect", "method", 38, 38, ""),
        ("Door", "enum", 41, 41, ""),
        ("Label", "record", 43, 43, ""),
        ("Moved", "type", 45, 45, ""),
    ],
    "Ferry.kt": [
        ("STOPS", "constant", 8, 11, ""),
        ("Ferry", "class", 16, 33, "Carries people over the river."),
        ("Ferry.constructor", "method", 18, 18, ""),
        ("Ferry.board", "method", 23, 26, "Lets somebody board."),
        ("Ferry.small", "method", 29, 29, ""),
        ("Ferry.Side", "enum", 32, 32, ""),
        ("Floating", "interface", 35, 37, ""),
        ("Floating.depth", "method", 36, 36, ""),
        ("Harbour", "object", 39, 41, ""),
        ("Harbour.call", "method", 40, 40, ""),
        ("Ticket", "class", 43, 43, ""),
        ("crossings", "function", 46, 46, "Rounds up."),
        ("Fleet", "type", 48, 48, ""),
        ("Ferry", "module", 5, 6, ""),
    ],
    "Kiln.scala": [
        ("Kiln", "class", 6, 15, "Burns clay."),
        ("Kiln.load", "method", 10, 12, "Adds a pot."),
        ("Kiln.size", "method", 14, 14, ""),
        ("Kiln", "object", 17, 24, ""),
        ("Kiln.apply", "method", 23, 23, ""),
        ("Oven", "trait", 26, 28, ""),
        ("Oven.heat", "method", 27, 27, ""),
        ("Pot", "class", 30, 30, ""),
        ("Shelf", "type", 32, 32, ""),
        ("sorted", "function", 35, 35, "Largest first."),
    ],
    "Beacon.swift": [
        ("Beacon", "class", 4, 20, "Sends light."),
        ("Beacon.init", "method", 7, 9, ""),
        ("Beacon.deinit", "method", 11, 11, ""),
        ("Beacon.on", "method", 15, 17, "Turns the light on."),
        ("Beacon.Color", "enum", 19, 19, ""),
        ("Flash", "struct", 22, 22, ""),
        ("Beacon.range", "method", 25, 25, ""),
        ("Visible", "protocol", 28, 30, ""),
        ("Visible.range", "method", 29, 29, ""),
        ("Signal", "type", 32, 32, ""),
        ("morse", "constant", 34, 37, ""),
        ("pause", "function", 40, 40, "Waits between two flashes."),
    ],
    "orchard.rs": [
        ("Tree", "struct", 9, 13, "What a tree bears."),
        ("Tree.plant", "method", 17, 20, "Plants a tree."),
        ("Tree.fmt", "method", 26, 28, ""),
        ("Bearing", "trait", 32, 36, "Bears fruit."),
        ("Bearing.ripe", "method", 35, 35, ""),
        ("Season", "enum", 38, 41, ""),
        ("Row", "type", 43, 43, ""),
        ("MONTHS", "constant", 45, 48, ""),
        ("row", "macro", 50, 52, ""),
        ("tools.cut", "function", 56, 56, "Cuts a branch."),
        ("orchard", "module", 3, 23, "Trees and what grows on them."),
    ],
    "kettle.zig": [
        ("Fault", "enum", 5, 5, "What can go wrong."),
        ("Kettle", "struct", 7, 16, ""),
        ("Kettle.Lid", "enum", 10, 10, ""),
        ("Kettle.fill", "method", 13, 15, "Fills the kettle."),
        ("Row", "struct", 19, 27, "Keeps things in a row."),
        ("Row.first", "method", 23, 25, ""),
        ("names", "constant", 29, 32, ""),
        ("boil", "function", 34, 36, ""),
        ("boils", "test", 38, 40, ""),
    ],
    "deploy.sh": [
        ("SERVERS", "constant", 5, 8, ""),
        ("copy_files", "function", 11, 14, "Copies the files to a server."),
        ("restart", "function", 16, 16, ""),
        ("log.usage", "method", 19, 21, ""),
        ("deploy", "module", 1, 27, "Puts a release on the servers."),
    ],
    "lantern.lua": [
        ("COLORS", "constant", 4, 7, ""),
        ("light", "function", 11, 13, "Lights a lantern."),
        ("Lantern.swing", "method", 15, 17, ""),
        ("douse", "function", 20, 20, "Puts them all out."),
        ("relight", "function", 22, 24, ""),
        ("handlers", "constant", 26, 29, ""),
        ("handlers.wind", "method", 27, 27, ""),
        ("lantern", "module", 1, 2, "Lanterns along a path."),
        ("lantern", "module", 31, 31, ""),
    ],
    "harbor.ex": [
        ("Fixture.Harbor", "module", 1, 29, "Ships and their berths."),
        ("Fixture.Harbor.dock", "function", 10, 18, "Lets a ship in."),
        ("Fixture.Harbor.full?", "function", 20, 20, ""),
        ("Fixture.Harbor.each", "macro", 22, 24, ""),
        ("Fixture.Harbor.Berth", "module", 26, 28, ""),
        ("String.Chars.Fixture.Ship", "module", 31, 33, ""),
        ("String.Chars.Fixture.Ship.to_string", "function", 32, 32, ""),
    ],
    "Grove.hs": [
        ("Tree", "type", 8, 11, "A tree and its branches."),
        ("Age", "type", 13, 13, ""),
        ("Grove", "type", 15, 15, ""),
        ("height", "function", 18, 21, "How many branches are on top of each other."),
        ("Growing", "class", 23, 25, ""),
        ("Growing.grow", "method", 25, 25, "One year more."),
        ("Growing.Age", "instance", 27, 28, ""),
        ("<+>", "function", 30, 31, ""),
        ("oldest", "function", 33, 33, ""),
    ],
    "Mill.pm": [
        ("new", "function", 18, 21, ""),
        ("grind", "function", 23, 32, "Grinds a sack of grain."),
        ("clean", "function", 35, 35, "Cleans both stones."),
        ("Fixture.Mill.Stone.turn", "function", 38, 38, ""),
        ("early", "function", 42, 42, ""),
        ("Mill", "module", 6, 16, "Fixture::Mill - grinds grain between two stones"),
        ("Mill", "module", 41, 51, ""),
    ],
    "tide.jl": [
        ("Tides", "module", 2, 44, "Heights of the water."),
        ("Tides.height", "function", 7, 14, "Height of the water at a time, in metres."),
        ("Tides.period", "function", 17, 17, "Twice a day."),
        ("Tides.Base.show", "function", 19, 19, ""),
        ("Tides.scaled", "function", 21, 21, ""),
        ("Tides.Tide", "struct", 23, 27, "What the water does at a place."),
        ("Tides.Water", "type", 29, 29, ""),
        ("Tides.flood", "macro", 31, 33, ""),
        ("Tides.PLACES", "constant", 35, 38, ""),
        ("Tides.low", "function", 40, 42, ""),
    ],
    "press.ml": [
        ("press", "function", 5, 7, "Presses a basket of apples."),
        ("rest", "function", 9, 9, ""),
        ("count", "function", 10, 10, ""),
        ("apple", "type", 12, 12, ""),
        ("Empty", "type", 14, 14, ""),
        ("sorts", "constant", 16, 19, ""),
        ("Barrel", "module", 21, 24, ""),
        ("Barrel.fill", "function", 23, 23, "Fills it."),
        ("Store", "interface", 26, 28, ""),
        ("Store.keep", "function", 27, 27, ""),
        ("cellar", "class", 30, 32, ""),
        ("cellar.deep", "method", 31, 31, ""),
        ("press", "module", 1, 1, "Presses cider."),
        ("press", "module", 34, 34, ""),
    ],
    "press.mli": [
        ("press", "function", 1, 2, "Presses a basket of apples."),
        ("apple", "type", 5, 5, "A kind of apple."),
        ("Empty", "type", 7, 7, ""),
    ],
    "Kite.m": [
        ("Flying", "protocol", 4, 6, ""),
        ("Wind", "enum", 8, 11, ""),
        ("Kite", "class", 14, 16, "A kite of paper."),
        ("Kite", "class", 18, 27, ""),
        ("Kite.rise:above:", "method", 21, 23, "Lets out line."),
        ("Kite.kite", "method", 25, 25, ""),
        ("knots", "function", 29, 29, ""),
    ],
    "Gate.ps1": [
        ("Open-Gate", "function", 7, 17, "Opens the gate for a while."),
        ("Close-Gate", "function", 20, 22, "Closes it."),
        ("Gate", "class", 24, 30, ""),
        ("Gate.Gate", "method", 27, 27, ""),
        ("Gate.Lock", "method", 29, 29, ""),
        ("State", "enum", 32, 32, ""),
        ("Gate", "module", 1, 5, "Opens and closes the gate."),
    ],
    "ferry.sql": [
        ("river.crossings", "table", 2, 5, "Crossings of the ferry."),
        ("empty_crossings", "view", 10, 11, "Crossings with nobody on board."),
        ("river.carried", "function", 14, 18, "Counts all people."),
        ("side", "type", 20, 20, ""),
        ("counted", "trigger", 22, 23, ""),
        ("ferry", "module", 7, 25, ""),
    ],
    "crossing.tf": [
        ("var.bank", "variable", 7, 11, "Bank of the river that the ferry sleeps at"),
        ("local.crossings", "constant", 15, 18, ""),
        ("aws_s3_bucket.timetables", "resource", 22, 32, "Timetables, kept for a year."),
        ("data.aws_region.current", "data", 34, 34, ""),
        ("module.jetty", "module", 36, 39, ""),
        ("output.bucket", "output", 41, 44, "Bucket that has the timetables"),
        (
            "crossing",
            "module",
            1,
            14,
            "Infrastructure of the ferry: where its timetable is kept.",
        ),
    ],
    "lighthouse.dart": [
        ("reach", "constant", 8, 11, "Metres from which each lamp is seen."),
        ("Watch", "type", 13, 13, ""),
        ("Signal", "enum", 16, 25, "How a lamp shines."),
        ("Signal.Signal", "method", 20, 20, ""),
        ("Signal.pauses", "method", 24, 24, "Whether it is dark at times."),
        ("lightAll", "function", 28, 31, "Lights all lamps, one after another."),
        ("twice", "function", 33, 33, ""),
        ("Lamp", "class", 38, 75, "Something that shines."),
        ("Lamp.Lamp", "method", 40, 40, ""),
        ("Lamp.dark", "method", 43, 43, "A lamp without power."),
        ("Lamp.read", "method", 45, 47, ""),
        ("Lamp.brightness", "method", 56, 56, "Candela."),
        ("Lamp.brightness", "method", 58, 60, ""),
        ("Lamp.==", "method", 62, 64, ""),
        ("Lamp.ships", "method", 67, 72, "Ships that pass."),
        ("Lamp.refill", "method", 74, 74, ""),
        ("Glow", "mixin", 77, 79, ""),
        ("Glow.glow", "method", 78, 78, ""),
        ("Lamps", "extension", 81, 83, ""),
        ("Lamps.power", "method", 82, 82, ""),
        ("String.lit", "method", 86, 86, ""),
        ("Candela", "extension", 89, 91, ""),
        ("Candela.watts", "method", 90, 90, ""),
        ("Calm", "class", 93, 93, ""),
        ("depth", "function", 95, 96, ""),
        ("level", "function", 98, 98, ""),
        ("main", "function", 100, 100, ""),
        ("lighthouse", "module", 1, 1, "A lighthouse, its lamps and whatever else shines in it."),
    ],
    "Locks.groovy": [
        ("Locks", "class", 9, 50, "Lifts boats from one level to the next."),
        ("Locks.Locks", "method", 14, 16, ""),
        ("Locks.lift", "method", 20, 23, "Lifts all boats,"),
        ("Locks.compareTo", "method", 25, 28, ""),
        ("Locks.sorted", "method", 30, 32, ""),
        ("Locks.ring", "method", 35, 37, "Rings the bell."),
        ("Locks.Gate", "enum", 39, 42, ""),
        ("Locks.Gate.opens", "method", 41, 41, ""),
        ("Locks.Keeper", "class", 44, 47, ""),
        ("Locks.Keeper.sleep", "method", 46, 46, ""),
        ("Locks.depth", "method", 49, 49, ""),
        ("Floating", "trait", 52, 55, ""),
        ("Floating.float", "method", 53, 53, ""),
        ("Floating.sound", "method", 54, 54, ""),
        ("Side", "enum", 57, 59, ""),
        ("fit", "function", 62, 64, "Whether two boats fit."),
        ("tolls", "constant", 66, 69, ""),
        ("LocksSpec", "class", 71, 82, ""),
        ("LocksSpec.a boat is lifted", "test", 72, 77, ""),
        ("LocksSpec.gates close", "test", 79, 81, ""),
    ],
    "canal.gradle": [
        ("fill", "task", 15, 17, "Fills the canal."),
        ("drain", "task", 19, 23, ""),
        ("countBoats", "task", 25, 28, "Counts boats"),
        ("versionOf", "function", 34, 36, ""),
        ("pack", "task", 40, 42, "Packs a boat."),
        ("Greeting", "class", 45, 51, ""),
        ("Greeting.greet", "method", 49, 50, ""),
        ("canal", "module", 1, 38, "Builds the canal: boats, locks and what keeps them."),
    ],
    "Harbor.sol": [
        ("LowTide", "type", 7, 7, "The tide is too low."),
        ("Metres", "type", 9, 9, ""),
        ("deeper", "function", 14, 16, "Adds depths."),
        ("REACH", "constant", 18, 20, ""),
        ("Harbor", "contract", 27, 78, "Harbor"),
        ("Harbor.Berth", "struct", 34, 37, ""),
        ("Harbor.Flag", "enum", 39, 39, ""),
        ("Harbor.onlyMaster", "method", 44, 47, "Only the master may."),
        ("Harbor.constructor", "method", 49, 51, ""),
        ("Harbor.moor", "method", 57, 69, "Moors a ship."),
        ("Harbor.depth", "method", 71, 71, ""),
        ("Harbor.receive", "method", 73, 73, ""),
        ("Harbor.fallback", "method", 75, 77, ""),
        ("IHarbor", "interface", 80, 82, ""),
        ("IHarbor.depth", "method", 81, 81, ""),
        ("Tides", "library", 85, 89, "Tides by the hour."),
        ("Tides.rise", "method", 86, 88, ""),
    ],
    "estuary.f90": [
        ("estuary", "module", 3, 59, "Tides of an estuary,"),
        ("estuary.tide", "struct", 13, 18, "A tide with its moon."),
        ("estuary.height", "interface", 20, 22, ""),
        ("estuary.+", "interface", 24, 26, ""),
        ("estuary.tide_height", "function", 32, 43, "Height at a time,"),
        ("estuary.add", "function", 45, 49, "Both tides at once."),
        ("estuary.drain", "function", 53, 56, "Empties it."),
        ("locks", "module", 61, 66, ""),
        ("locks.open_lock", "function", 63, 65, ""),
        ("ferry", "program", 68, 76, ""),
        ("ferry.report", "function", 72, 75, ""),
    ],
    "gauge.f": [
        ("GAUGE", "function", 4, 13, "READS THE GAUGE AT THE PIER."),
        ("TWICE", "function", 15, 18, ""),
    ],
    "Heron.m": [
        ("Heron", "class", 3, 38, "Waits for fish."),
        ("Heron.Heron", "method", 21, 23, ""),
        ("Heron.Patience", "method", 25, 27, ""),
        ("Heron.wait", "method", 30, 32, "Waits for the next fish."),
        ("Heron.tallest", "method", 36, 36, ""),
        ("steps", "function", 40, 49, "Counts steps."),
        ("Heron", "module", 1, 1, "Birds of the shore, and how many steps they take there."),
    ],
    "otter.gd": [
        ("Mood", "enum", 11, 11, ""),
        ("DEPTHS", "constant", 13, 16, ""),
        ("_ready", "function", 26, 28, ""),
        ("dive", "function", 32, 36, "Dives to a depth,"),
        ("heavier", "function", 38, 39, ""),
        ("Shell", "class", 42, 50, "A shell to open."),
        ("Shell._init", "method", 45, 46, ""),
        ("Shell.crack", "method", 49, 50, "Cracks it."),
        ("float_away", "function", 52, 53, ""),
        ("otter", "module", 1, 24, "An otter that dives."),
    ],
    "dike.nix": [
        ("raise-all", "function", 8, 8, "Raises all dikes."),
        ("settings", "constant", 10, 13, ""),
        ("settings.south", "function", 12, 12, ""),
        ("lib.dikes.find", "function", 21, 22, "The dike of a name."),
        ("sand", "constant", 27, 35, "Sand for all of them."),
        ("options.services.dike", "constant", 37, 39, ""),
        ("dike", "module", 1, 24, "Dikes along the river."),
    ],
}
# Those whose grammars are in the extra `languages`.
OPTIONAL = [
    "lighthouse.dart", "Locks.groovy", "canal.gradle", "Harbor.sol", "estuary.f90", "gauge.f", "Heron.m", "otter.gd",
    "dike.nix",
]  # fmt: skip
LANGUAGE_OF = {
    name: BY_SUFFIX[Path(name).suffix].name
    for name in EXPECTED
    if name not in ("Heron.m", "canal.gradle")
} | {"Heron.m": "matlab", "canal.gradle": "gradle"}


def read(path: Path, **options: object) -> list[Document | Skipped]:
    items: list[Document | Skipped] = []
    for file in files(path, **options):  # type: ignore[arg-type]
        items += [file] if isinstance(file, Skipped) else file.read()
    return items


def documents(path: Path, **options: object) -> list[Document]:
    items = read(path, **options)
    assert not [item for item in items if isinstance(item, Skipped)]
    return [item for item in items if isinstance(item, Document)]


def listed(path: Path, **options: object) -> dict[str, SourceFile]:
    items = files(path, **options)  # type: ignore[arg-type]
    return {item.path: item for item in items if isinstance(item, SourceFile)}


def paths(root: Path) -> list[str]:
    return [path for path in walk(root) if isinstance(path, str)]


def read_text(
    tmp_path: Path, suffix: str, source: str | bytes, **options: object
) -> list[Document | Skipped]:
    path = tmp_path / f"one{suffix}"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return read(path, **options)


def is_module(document: Document) -> bool:
    return document.id.partition("~")[0].endswith("::(module)")


def definitions(items: list[Document | Skipped]) -> list[Document]:
    return [item for item in items if isinstance(item, Document) and not is_module(item)]


def named(documents: list[Document], title: str) -> Document:
    return next(document for document in documents if document.title == title)


@pytest.mark.parametrize("name", EXPECTED)
def test_definitions_of_each_language(name: str) -> None:
    definitions = documents(CODE_FILES / name)
    rows = [
        (
            d.title,
            d.fields["kind"],
            d.location.start_line,
            d.location.end_line,
            d.summary.split("\n")[0],
        )
        for d in definitions
    ]

    assert rows == EXPECTED[name]

    for document in definitions:
        assert document.kind == "code"
        assert document.location.path == document.fields["path"] == name
        assert document.fields["language"] == LANGUAGE_OF[name]
        assert document.fields["role"] == (
            "test" if document.fields["kind"] == "test" else "source"
        )
        # What a trait's methods have besides is no name.
        names = [part for part in document.context if not part.startswith(("impl<", "extension "))]
        assert [*names, document.fields["name"]] == _parts(document.title)


def _parts(title: str) -> list[str]:
    return (
        [title[:-17].rstrip("."), "[Symbol.iterator]"] if title.endswith("]") else title.split(".")
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_bodies_are_the_lines_of_the_file(name: str) -> None:
    lines = (CODE_FILES / name).read_text().split("\n")
    for document in documents(CODE_FILES / name):
        first, last = document.location.start_line, document.location.end_line

        assert first is not None
        assert last is not None

        source = "\n".join(lines[first - 1 : last])

        if document.fields["kind"] in {"function", "method"}:
            assert document.body in source
            assert document.body.count("\n") == last - first
        else:
            head, *rest = document.body.split("\n")
            assert head in lines[first - 1]
            assert set(rest[:-1]) <= set(lines[first:last])
            # A line may end after the definition: `};`.
            assert not rest or any(line.startswith(rest[-1]) for line in lines[first:last])


@pytest.mark.parametrize("name", EXPECTED)
def test_signature_is_an_atom(name: str) -> None:
    for document in documents(CODE_FILES / name):
        if is_module(document):
            assert document.atoms == ()
            continue
        (atom,) = document.atoms
        text = " ".join(document.body[atom.start : atom.end].split())
        for end in ("=>", ":", "="):
            text = text.removesuffix(end).rstrip()
        assert text == document.fields["signature"]
        last_name = str(document.fields["name"]).split(".")[-1]
        # Of a selector such as `rise:above:`, each part is before its parameter.
        parts = last_name.split(":") if document.fields["language"] == "objectivec" else [last_name]
        assert all(part in text for part in parts) or document.title == "default"


@pytest.mark.parametrize(
    ("name", "title", "signature"),
    [
        ("shelf.py", "widest", "def widest( parcels: list[int], *, least: int = 0, ) -> int"),
        ("shelf.py", "Shelf.total", "def total(self) -> int"),
        ("router.js", "matches", "const matches = (route, pattern)"),
        ("queue.ts", "Queue", "export class Queue<T> implements Iterable<Job<T>>"),
        ("ring.go", "Ring.Push", "func (r *Ring[T]) Push(größe T) (int, error)"),
        ("ring.go", "Ring", "type Ring[T any] struct"),
        ("Ledger.java", "Ledger.sum", "public double sum(int digits) throws ArithmeticException"),
        ("mailer.php", "Mailer", "abstract class Mailer implements Sender"),
        ("garden.rb", "Garden.Bed.empty?", "def empty?"),
        ("garden.rb", "Garden.Bed", "class Bed < Base"),
        ("Mill.pm", "clean", "sub clean($self)"),
        ("tide.jl", "Tides.height", "function height(tide::Tide, time)::Float64"),
        ("tide.jl", "Tides.Tide", "Base.@kwdef struct Tide{T} <: Water"),
        ("press.mli", "press", "val press : int -> int"),
        ("Kite.m", "Kite.rise:above:", "- (void)rise:(double)metres above:(double)ground"),
        ("Gate.ps1", "Gate", "class Gate : Door"),
        (
            "ferry.sql",
            "river.carried",
            "CREATE OR REPLACE FUNCTION river.carried(since DATE) RETURNS INT",
        ),
        ("crossing.tf", "aws_s3_bucket.timetables", 'resource "aws_s3_bucket" "timetables"'),
        ("lighthouse.dart", "reach", "const Map<String, int> reach"),
        ("lighthouse.dart", "depth", "external int depth()"),
        ("lighthouse.dart", "Lamp.dark", "const Lamp.dark(String name)"),
        ("lighthouse.dart", "Lamp.==", "bool operator ==(Object other)"),
        (
            "Locks.groovy",
            "Locks",
            "class Locks extends Canal implements Comparable<Locks>",
        ),
        ("Locks.groovy", "Locks.Keeper", "static class Keeper extends Person"),
        ("canal.gradle", "fill", "task fill(type: Exec, dependsOn: build)"),
        ("canal.gradle", "countBoats", "tasks.register('countBoats', Copy)"),
        ("Harbor.sol", "Harbor", "abstract contract Harbor is Base, IHarbor(4)"),
        ("estuary.f90", "estuary.tide", "type, extends(water), public :: tide"),
        ("estuary.f90", "estuary.add", "elemental type(tide) function add(a, b)"),
        ("Heron.m", "Heron.wait", "function [fish, varargout] = wait(obj, varargin)"),
        ("otter.gd", "dive", "func dive(to: int, slowly := false) -> bool"),
        ("dike.nix", "raise-all", "raise-all = metres: dikes"),
    ],
)
def test_signatures_leave_out_decorators_and_bodies(name: str, title: str, signature: str) -> None:
    assert named(documents(CODE_FILES / name), title).fields["signature"] == signature


def test_summaries_are_cleaned() -> None:
    widest = named(documents(CODE_FILES / "shelf.py"), "widest")

    assert widest.summary == "Width of the widest parcel.\n\nParcels under `least` do not count."

    matches = named(documents(CODE_FILES / "router.js"), "matches")

    assert matches.summary.splitlines()[2:] == [
        "@param {string} route what was asked for",
        "@returns {boolean}",
    ]

    push = named(documents(CODE_FILES / "ring.go"), "Ring.Push")

    assert push.summary == "Push puts a value in place of the oldest;\ngröße is not checked."


def test_outline_of_a_class_in_python() -> None:
    assert named(documents(CODE_FILES / "shelf.py"), "Shelf").body == (
        'class Shelf:\n    """Keeps parcels in order of width."""\n\n    rows: int = 4\n    naïveté = "ünïcödé"\n\n'
        "    def __init__(self, parcels: list[int]) -> None:\n    @property\n    def size(self) -> int:\n"
        "    @size.setter\n    def size(self, value: int) -> None:\n    @cached_property\n    def total(self) -> int:\n"
        "    class Slot:\n    if LIMIT > 2:\n\n        def pop(self) -> Iterator[int]:"
    )


def test_outline_of_a_class_in_java() -> None:
    assert named(documents(CODE_FILES / "Ledger.java"), "Ledger").body == (
        "@Deprecated\npublic final class Ledger<T extends Number> implements Iterable<T> {\n"
        '    private final List<T> entries;\n    static final String TITLE = "Bücher";\n\n'
        '    public Ledger(List<T> entries) {\n    @Override\n    @SuppressWarnings("unchecked")\n'
        "    public double sum(int digits)\n            throws ArithmeticException {\n    public double sum() {\n"
        "    enum Place {\n    record Entry(String name, long cents) {\n    interface Visitor {\n}"
    )


@pytest.mark.parametrize(
    ("suffix", "source", "context"),
    [
        (
            ".rs",
            "impl<T> Shade\n    for Lamp<T> { fn dim() {} }",
            ("Lamp", "impl<T> Shade for Lamp<T>"),
        ),
        (".rs", "impl Lamp { fn dim() {} }", ("Lamp",)),
        (
            ".swift",
            "extension Lamp: Shade {\n  func dim() {}\n}",
            ("Lamp", "extension Lamp: Shade"),
        ),
        (".swift", "extension Lamp {\n  func dim() {}\n}", ("Lamp",)),
    ],
)
def test_context_tells_what_trait_a_method_is_of(
    tmp_path: Path, suffix: str, source: str, context: tuple[str, ...]
) -> None:
    (method,) = definitions(read_text(tmp_path, suffix, source))
    assert (method.title, method.context) == ("Lamp.dim", context)


def test_outline_of_an_enum_leaves_out_what_its_constants_do(tmp_path: Path) -> None:
    source = "enum A {\n  B {\n    int c() {\n      return 1;\n    }\n  },\n  D\n}\n"
    enum, constant, _method = definitions(read_text(tmp_path, ".java", source))
    assert enum.body == "enum A {\n  B {\n  D\n}"
    assert constant.body == "B {\n    int c() {\n  }"


def test_ids_are_unique_and_stable() -> None:
    ids = [document.id for document in documents(CODE_FILES)]
    assert len(set(ids)) == len(ids)
    assert ids == [document.id for document in documents(CODE_FILES)]
    assert {"shelf.py::Shelf.size", "shelf.py::Shelf.size~2", "Ledger.java::Ledger.sum~2"} <= set(
        ids
    )


@pytest.mark.parametrize(
    ("suffix", "source", "summary"),
    [
        (".js", "/* Copyright 2020 A. Body */\nfunction f() {}", ""),
        (".js", "/* Checks a copyright. */\nconst x = 1;\n\n\n\n/* Finds the copyright. */\nfunction f() {}",
         "Finds the copyright."),
        (".js", "const x = 1; // of x\nfunction f() {}", ""),
        (".js", "// far away\n\nfunction f() {}", ""),
        (".js", "// one\n\n// two\nfunction f() {}", "two"),
        (".js", "/** block */\n// line\nfunction f() {}", "line"),
        (".js", "/** of the file */\n\nfunction f() {}", ""),
        (".js", "let a\n\n\n\n\n\n\n/** far */\n\nb.c = b.f = function () {}", "far"),
        (".js", "// line\n/** block */\nfunction f() {}", "block"),
        (".js", "// @ts-ignore\n// says it\nfunction f() {}", "says it"),
        (".js", "// ---------\nfunction f() {}", ""),
        (".ts", "/** Exported. */\nexport async function f() {}", "Exported."),
        (".go", "package p\n\n//go:noinline\nfunc f() {}", ""),
        (".rb", "# frozen_string_literal: true\ndef f; end", ""),
        (".php", "<?php\n/**\n * Says it.\n *\n *   indented\n */\nfunction f() {}", "Says it.\n\n  indented"),
        (".py", "def f():\n    r'''Raw \\d.'''\n", "Raw \\d."),
        (".py", 'def f():\n    """\\\n    Continued.\n    """\n', "Continued."),
        (".py", "def f():\n    # first\n    'Plain.'\n", "Plain."),
        (".py", "def f():\n    b'bytes'\n", ""),
        (".py", "def f():\n    x = 'no'\n", ""),
    ],
)  # fmt: skip
def test_what_counts_as_a_doc_comment(
    tmp_path: Path, suffix: str, source: str, summary: str
) -> None:
    document, *_module = read_text(tmp_path, suffix, source)
    assert isinstance(document, Document)
    assert document.summary == summary


@pytest.mark.parametrize(
    ("suffix", "source", "titles"),
    [
        (".js", "module.exports = { a() {}, b: { c: () => 1 } };", ["a", "b.c"]),
        (".js", "module.exports = function () {};", ["exports"]),
        (".js", "export default class { m() {} }", ["default", "default.m"]),
        (".js", "const A = class { static #p() {} };", ["A", "A.#p"]),
        (".js", "define(['x'], function (x) { return { go: function () {} }; });", ["go"]),
        (".js", "a['two words'] = function () {}; const o = { 'x y': function () {}, 'z': function () {} };", ["o.z"]),
        (".js", "function* g() {} export const h = async () => {}", ["g", "h"]),
        (".ts", "declare module 'lib' { function f(): void; class C { m(): void } }", ["lib.f", "lib.C", "lib.C.m"]),
        # Flow's types, some of which TypeScript does not have.
        (".js", "// @flow\nimport type {A} from 'a';\nexport class B<T> { c(d: ?A, e?: {...}): Array<T> {} }\n"
         "function f(g: mixed): void {}", ["B", "B.c", "f"]),
        (".js", "const div = <p>{a ?? b}</p>;\nfunction f() { return < }", []),
        (".vue", "<script lang='tsx'>\nconst V = () => <b>{x}</b>;\n</script>", ["V"]),
        (".vue", "<SCRIPT>function f() {}</SCRIPT ><script>function g() {}", ["f", "g"]),
        (".vue", "<script-x>function f() {}</script-x><script src='a' function g() {}", []),
        (".tsx", "class V extends C<P> { render() { return <b>{this.x}</b>; } }", ["V", "V.render"]),
        (".go", "package p\nfunc (*T) M() {}\nfunc (t pkg) N() {}\ntype F func()", ["T.M", "pkg.N", "F"]),
        (".rb", "class A\n included do\n  def b; end\n end\n def A.c; end\n def A2.d; end\nend",
         ["A", "A.b", "A.c", "A.A2.d"]),
        (".php", "<?php namespace A { class B {} } namespace C { function d() {} }", ["A.B", "C.d"]),
        (".py", "if x:\n  def f(): pass\nelse:\n  def f(): pass\ntry:\n  pass\nexcept E:\n  class G: pass",
         ["f", "f", "G"]),
        (".py", "def f():\n  class Inner:\n    def m(self): pass\n", ["f"]),
    ],
)  # fmt: skip
def test_what_is_a_definition(tmp_path: Path, suffix: str, source: str, titles: list[str]) -> None:
    items = read_text(tmp_path, suffix, source)
    assert [item.title for item in definitions(items)] == titles


@pytest.mark.parametrize(
    ("suffix", "source", "rows"),
    [
        # Types always, constants of several lines, at the top of a file only.
        (".ts", "export type Id = string;\nconst one = 1;\nexport const MANY = [\n  1,\n];\n",
         [("Id", "type"), ("MANY", "constant"), ("one", "module")]),
        (".ts", "const store = create({\n  load() { return 1 },\n});\n",
         [("store", "constant"), ("store.load", "method")]),
        # Blocks of code with a name: tests, what groups them, routes and tasks.
        (".js", "it('x', () => {\n  const a = {\n    b() {},\n  };\n});\n", [("x", "test")]),
        (".ts", "describe('A', () => {\n  beforeEach(() => b());\n  test.each([1])(`adds ${c}`, d => e(d));\n"
         "  describe('when full', function () {\n    function f() {}\n    it('refuses', async () => {});\n  });\n});\n",
         [("A.adds ${c}", "test"), ("A.when full.f", "function"), ("A.when full.refuses", "test"), ("one", "module")]),
        (".js", "app.get('/lamps', async (a, b) => {\n  function c() {}\n  b.json(1);\n});\napp.on('x', () => 1);\n",
         [("app.get /lamps", "block"), ("app.get /lamps.c", "function"), ("one", "module")]),
        (".js", "app.get('/lamps', () => {\n" + "  f();\n" * 99 + "});\n", [("one", "module")] * 3),
        (".rb", "class A\n  get '/b' do\n    c\n  end\n  define_method(:d) { |e| e }\n"
         "  F = Struct.new(:g) do\n    def h; end\n  end\nend\n",
         [("A", "class"), ("A.get /b", "block"), ("A.d", "method"), ("A.F.h", "method")]),
        (".rb", "RSpec.describe A do\n  describe '#b' do\n    let(:c) { 1 }\n    it 'adds two' do\n"
         "    end\n  end\nend\n",
         [("A.#b.adds two", "test"), ("one", "module")]),
        (".rake", "namespace :a do\n  task b: :c do\n    d\n  end\nend\n"
         "E.new(:f) do\n  g\nend\nh(i: 1) do\n  j\nend\n",
         [("namespace a", "block"), ("namespace a.task b", "block"), ("one", "module")]),
        (".lua", "describe('A', function()\n  before_each(function() b() end)\n"
         "  it([[refuses]], function() local function c() end end)\nend)\n"
         "client:on('d', function(e)\n  local function f() end\n  e:g()\nend)\nh('i', 1)\n",
         [("A.refuses", "test"), ("client:on d", "block"), ("client:on d.f", "function"), ("one", "module")]),
        (".t", "package A;\nsubtest 'adds' => sub { b() };\nget '/c' => sub {\n  my $d = shift;\n};\n"
         "has e => sub {\n  f();\n};\n$g->hook(h => sub {\n  i();\n});\n"
         "j(k => sub { l() });\nm(1, sub {\n  n();\n});\n",
         [("adds", "test"), ("get /c", "block"), ("has e", "block"), ("hook h", "block"), ("one", "module")]),
        (".cpp", 'TEST_CASE("glows", "[lamp]") {\n  SECTION("when dim") { a(); }\n}\nLOG("b");\n{ c(); }\n',
         [("glows", "test"), ("one", "module")]),
        (".jl", '@testset "adds" begin\n  @test 1 == 1\nend\n@testset for a in b\n  c()\nend\n',
         [("adds", "test"), ("one", "module")]),
        (".php", "<?php\nit('refuses', function () { a(); });\n"
         "describe('B', function () {\n  test('c', fn () => 1)->group('d');\n});\n"
         "Route::middleware('e')->group(function () {\n  Route::get('/f/{g}', function ($g) {\n    return 1;\n"
         "  })->name('h');\n});\n$app->get('/i', function () {\n  return 2;\n});\n$j = fn ($k) => $k;\n",
         [("refuses", "test"), ("B.c", "test"), ("Route::get /f/{g}", "block"), ("$app->get /i", "block"),
          ("j", "function"), ("one", "module")]),
        (".php", "<?php\nclass A {\n  function b() { it('c', function () {}); }\n}\n",
         [("A", "class"), ("A.b", "method")]),
        (".swift", 'class A: QuickSpec {\n  override class func spec() {\n    describe("b") {\n'
         '      beforeEach { c() }\n      it("refuses") { d() }\n    }\n  }\n  func spec() { it("e") {} }\n}\n',
         [("A", "class"), ("A.b.refuses", "test"), ("A.spec", "method")]),
        (".kt", 'class A : FunSpec({\n  test("adds") { b() }\n  context("full") {\n    it("refuses") { c() }\n  }\n})\n'
         'class D : DescribeSpec() {\n  init {\n    describe("e") { it("f") {} }\n  }\n}\nfun g() { test("h") {} }\n',
         [("A", "class"), ("A.adds", "test"), ("A.full.refuses", "test"), ("D", "class"), ("D.e.f", "test"),
          ("g", "function")]),
        (".kts", 'tasks.register("hello") {\n  doLast { a() }\n}\n', [("tasks.register hello", "block")]),
        (".scala", 'class A extends AnyFunSuite {\n  test("adds") { b }\n  describe("c") { it("refuses") { d } }\n}\n'
         'class E extends AnyWordSpec {\n  "A lock" should "open" in { f }\n  it should "close" in { g }\n'
         '  "A gate" when { "wet" in { h } }\n  def i = { test("j") { 1 } }\n}\n',
         [("A", "class"), ("A.adds", "test"), ("A.c.refuses", "test"), ("E", "class"),
          ("E.A lock should open", "test"), ("E.it should close", "test"), ("E.A gate.wet", "test"),
          ("E.i", "method")]),
        # An overloaded function is one, with its signatures.
        (".ts", "/** Adds. */\nexport function a(b: string): void;\nexport function a(b: any) {}\n"
         "declare function c(): void;\nclass D {\n  e(f: string): void;\n  e(f: any) {}\n}\n",
         [("a", "function"), ("c", "function"), ("D", "class"), ("D.e", "method")]),
        (".js", "module.exports = {\n  a() {},\n  b,\n};\n", [("a", "method"), ("one", "module")]),
        (".js", "req.get = req.header = function header() {};", [("req.header", "method")]),
        (".py", "CODES = {\n  1: 2,\n}\nSHORT = 3\n", [("CODES", "constant"), ("one", "module")]),
        (".py", "class A:\n  rows = [\n    1,\n  ]\n", [("A", "class")]),
        # A file of imports alone is found by its path.
        (".py", "__all__ = [\n  'a',\n  'b',\n]\nfrom x import (\n  a,\n  b,\n)\n", [("one", "module")]),
        (".go", "package p\nconst (\n\tA = iota\n\tB\n)\ntype F func(int) error\n", [("A", "constant"), ("F", "type")]),
        (".go", "package p\n\nimport (\n\t\"fmt\"\n)\n", [("one", "module")]),
        # Modules that are only a name for what is inside.
        (".rb", "module Rails\n  module Paths\n    class Root\n      def a; end\n    end\n  end\nend\n",
         [("Rails.Paths.Root", "class"), ("Rails.Paths.Root.a", "method")]),
        (".rb", "module Rails\n  VERSION = 1\n  class Root\n  end\nend\n",
         [("Rails", "module"), ("Rails.Root", "class")]),
        (".rb", "module Rails\n  def self.root; end\nend\n", [("Rails", "module"), ("Rails.root", "method")]),
        # Assertions of the compiler, the end of a guard and empty functions say nothing.
        (".go", "package p\n\n// Has the compiler check that B implements what it has to implement.\nvar _ A = &B{}\n\n"
         "type B struct{}\n", [("B", "struct")]),
        (".cpp", "#ifndef A\n#define A 1\nint f() { return A; }\nB::~B() = default;\n#endif  // A and more\n",
         [("f", "function"), ("one", "module")]),
        (".cpp", "int f() { return 1; }\n\nB::~B() = default;\nclass C;\n#endif  // A and more\n", [("f", "function")]),
        (".rs", "impl A {\n  fn b() {}\n  type C = u8;\n}\nuse x::y;\n", [("A.b", "method"), ("one", "module")]),
        (".cpp", "namespace a { class B; }\nstruct C c;\n", [("one", "module")]),
        (".c", "enum { A };\nstruct s *f(void);\n", [("one", "module")]),
        (".cpp", "struct A {\n  A() = default;\n  ~A() {}\n};\n", [("A", "struct"), ("A.~A", "method")]),
        (".h", "int f(int a,\n      int b,\n      int c);\n", [("one", "module")]),
        # A typedef and what it describes are one; lines right below a macro belong to the file.
        (".c", "typedef struct a {\n  int b;\n} a_t;\ntypedef enum c { D } c;\n"
         "typedef struct e e_t;\nstruct f { int g; };\n",
         [("a_t", "struct"), ("c", "enum"), ("e_t", "type"), ("f", "struct")]),
        (".cpp", "typedef struct A {\n  int b() { return 1; }\n} C;\n", [("C", "struct"), ("C.b", "method")]),
        (".cpp", "struct A {\n  explicit operator bool() const { return b; }\n"
         "  void* operator new(size_t c) { return d; }\n};\nA::operator std::string() const { return e; }\n",
         [("A", "struct"), ("A.operator bool", "method"), ("A.operator new", "method"),
          ("A.operator std::string", "method")]),
        (".h", "#define A 1\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\nextern int limit;\n",
         [("MAX", "macro"), ("one", "module")]),
        (".ex", 'defmodule A do\n  @doc "Twice."\n  defmacro b(c), do: c\nend\n', [("A", "module"), ("A.b", "macro")]),
        (".kt", "object A { fun b() = 1 }\nclass C { val d = { 2 } }\nclass E { init { f() } }\n",
         [("A", "object"), ("A.b", "method"), ("C", "class"), ("E", "class")]),
        # Constants of an enum with methods of their own; sentences in backticks.
        (".java", "enum A {\n  B(1) {\n    int c() { return 1; }\n  },\n  D;\n  int c() { return 2; }\n}\n",
         [("A", "enum"), ("A.B", "class"), ("A.B.c", "method"), ("A.c", "method")]),
        (".kt", "enum class A {\n  B {\n    override fun c() = 1\n  };\n  abstract fun c(): Int\n}\n"
         "class DTest {\n  @Test fun `adds two`() {}\n}\n",
         [("A", "enum"), ("A.B", "class"), ("A.B.c", "method"), ("A.c", "method"), ("DTest", "class"),
          ("DTest.adds two", "method")]),
        (".c", "int (*table[])(void) = {\n  f,\n  g,\n};\n", [("table", "constant")]),
        (".cs", "namespace A;\nclass B { void C() {} }\n", [("B", "class"), ("B.C", "method")]),
        (".ex", "defmodule A do\n  def left <~> right, do: left\nend\n", [("A", "module"), ("A.<~>", "function")]),
        (".exs", 'defmodule A do\n  describe "b" do\n    test "adds two" do\n    end\n  end\nend\n',
         [("A.adds two", "test")]),
        (".zig", 'test "adds two" {\n}\n', [("adds two", "test")]),
        (".hs", "f 0 = 1\nf n = n\ng = f\n", [("f", "function"), ("g", "function")]),
        (".hs", "#if A\nf :: B\nf = 1\n#else\nf :: C\nf = 2\n#endif\n#define G \\\n  (\nh = 3\n",
         [("f", "function"), ("h", "function"), ("one", "module")]),
        (".hs", "foldl' f = f\nfoldl f = f\n", [("foldl'", "function"), ("foldl", "function")]),
        (".hs", "instance C (Either a b) where\n  c = 1\ninstance C (M.Map k v)\ninstance C (a, b)\ninstance C [a]\n",
         [("C.Either", "instance"), ("C.M.Map", "instance"), ("C.(a,b)", "instance"), ("C.[a]", "instance")]),
        (".cc", "TEST_F(Suite, Adds) { f(); }\nBOOST_AUTO_TEST_CASE(adds) {}\nAPI void TESTING(int a) {}\nT::T() {}\n",
         [("Suite.Adds", "test"), ("adds", "test"), ("TESTING", "function"), ("T.T", "method")]),
        # Properties with code of their own.
        (".swift", "extension A {\n  var b: Int {\n    1\n  }\n}\nclass C { var d = 1 }\n",
         [("A.b", "method"), ("C", "class")]),
        (".kt", "class A {\n  val b: Int\n    get() = 1\n  val c = 2\n}\n", [("A", "class"), ("A.b", "method")]),
        (".cs", "class A {\n  int B { get; set; }\n  int C => 1;\n  int D { get { return 2; } }\n"
         "  int this[int e] { get { return e; } }\n  public static A operator +(A f, A g) { return f; }\n}\n",
         [("A", "class"), ("A.C", "method"), ("A.D", "method"), ("A.this", "method"), ("A.+", "method")]),
        # Macros of several lines.
        (".h", "#define A \\\n  X(b) \\\n  X(c) \\\n  X(d)\n#define E \\\n  1\n", [("A", "macro"), ("one", "module")]),
    ],
)  # fmt: skip
def test_what_else_has_a_document(
    tmp_path: Path, suffix: str, source: str, rows: list[tuple[str, str]]
) -> None:
    documents = [item for item in read_text(tmp_path, suffix, source) if isinstance(item, Document)]
    assert [(document.title, document.fields["kind"]) for document in documents] == rows


@pytest.mark.parametrize(
    ("suffix", "source", "language", "kinds"),
    [
        (".h", '#import "A.h"\n@interface B : A\n- (void)c;\n@end\n', "objectivec", ["class"]),
        (".h", "namespace a {\nint b() { return 1; }\n}\n", "cpp", ["function"]),
        (".m", "function y = f(x)\n% Twice.\ny = 2 * x;\nend\n", "matlab", ["function"]),
        (".m", "% Draws.\nplot(1:3);\n", "matlab", ["module"]),
        (".m", "// Adds.\nint add(int a) { return a; }\n", "objectivec", ["function"]),
        (".inc", "<?php\nfunction a() {}\n", "php", ["function"]),
        (".inc", "a: mov eax, 1\n", "include", ["text"]),
    ],
)
def test_what_shares_its_suffix_is_told_by_its_lines(
    tmp_path: Path, suffix: str, source: str, language: str, kinds: list[str]
) -> None:
    items = [item for item in read_text(tmp_path, suffix, source) if isinstance(item, Document)]

    assert [item.fields["kind"] for item in items] == kinds
    assert {item.fields["language"] for item in items} == {language}


@pytest.mark.parametrize(
    ("suffix", "source", "rows"),
    [
        # A body beside its signature, and what neither has.
        (".dart", "external int a();\nint b() => 1;\nset c(int d) {\n}\n",
         [("a", 1, 1), ("b", 2, 2), ("c", 3, 4)]),
        (".dart", "final a = [\n  1,\n];\nvar b = 2;\nint c = 3;\nlate final List<int>? d = [\n  1,\n];\n",
         [("a", 1, 3), ("d", 6, 8), ("one", 4, 5)]),
        (".dart", "typedef int A(int b);\nclass C {\n  C._();\n  factory C.d() = E;\n  operator []=(a, b) {}\n}\n",
         [("A", 1, 1), ("C", 2, 6), ("C._", 3, 3), ("C.d", 4, 4), ("C.[]=", 5, 5)]),
        (".groovy", "class A {\n  enum Bar\n  {\n    X\n  }\n  interface C { int d() }\n  int e() { 1 }\n}\n",
         [("A", 1, 8), ("A.Bar", 2, 5), ("A.C", 6, 6), ("A.C.d", 6, 6), ("A.e", 7, 7)]),
        (".groovy", "static main(args) {\n}\n", [("main", 1, 2)]),
        (".gradle", "tasks.create(name: 'a')\ntasks.register('b')\n", [("b", 2, 2), ("one", 1, 1)]),
        (".sol", "contract A { modifier b virtual; }\ncontract C { function () external {} }\n",
         [("A", 1, 1), ("A.b", 1, 1), ("C", 2, 2), ("C.function", 2, 2)]),
        (".f90", "interface\n  subroutine a() bind(c)\n  end subroutine\nend interface\nprint *, 1\nend\n",
         [("one", 1, 6)]),
        (".for", "      SUBROUTINE A\n      B = 1 +\n     *    2\n      END\n", [("A", 1, 4)]),
        (".gd", "func a():\n\tpass\nclass B:\n\tfunc c():\n\t\tpass\n", [("a", 1, 2), ("B", 3, 5), ("B.c", 4, 5)]),
        # What a package is made of is no definition.
        (".nix", "{ a }: a.b {\n  meta = {\n    c = 1;\n  };\n  d.e = f: g:\n    f;\n}\n",
         [("d.e", 5, 6), ("one", 1, 4)]),
    ],
)  # fmt: skip
def test_definitions_by_optional_grammars(
    tmp_path: Path, suffix: str, source: str, rows: list[tuple[str, int, int]]
) -> None:
    items = [item for item in read_text(tmp_path, suffix, source) if isinstance(item, Document)]

    lines = [(item.title, item.location.start_line, item.location.end_line) for item in items]
    assert lines == rows


@pytest.mark.parametrize(
    ("suffix", "source", "rows"),
    [
        # Macros before a name, around it and in place of a statement.
        (".c", "API A_State b(int c) {\n  return c;\n}\nd(e)\n{\n}\nAPI(void) (f)(g)\n{\n}\n",
         [("b", 1, 3), ("d", 4, 6), ("one", 7, 9)]),
        (".c", "PHP_FUNCTION(a) {\n}\nPHP_METHOD(B, c)\n{\n}\nCALL2(d, int, e)\n{\n}\nf(g, h)\n{\n}\n",
         [("a", 1, 2), ("B.c", 3, 5), ("d", 6, 8), ("f", 9, 11)]),
        (".c", "int a() {\n  if (!b)\n    FAIL(1, \"c (d)\")\n  LEAVE(b)\n}\nint c() {\n  FAIL(2)\n}\n",
         [("a", 1, 5), ("c", 6, 8)]),
        (".cpp", "class A_API(x) B_API C final : public D {\n public:\n  C() B_API : e(1) {}\n"
         "  int f() const HOLDS(g)\n      LEAVES(h) { return e; }\n  int e HELD_BY(g);\n};\nstruct AB {};\n"
         "void C::i() HOLDS(g()) {\n}\n",
         [("C", 1, 7), ("C.C", 3, 3), ("C.f", 4, 5), ("AB", 8, 8), ("C.i", 9, 10)]),
        (".m", "OPEN\n@interface A : B\n- (void)c;\n@end\nOPEN @protocol D\n@end\n",
         [("A", 2, 4), ("D", 5, 6), ("one", 1, 1)]),
        (".scala", "package a.b\n\npackage c {\n  class D {\n    def e = 1\n  }\n}\n",
         [("c.D", 4, 6), ("c.D.e", 5, 5)]),
        (".js", "function a() {\n}\n\nexport default a;\n", [("a", 1, 2)]),
    ],
)  # fmt: skip
def test_lines_of_definitions(
    tmp_path: Path, suffix: str, source: str, rows: list[tuple[str, int, int]]
) -> None:
    items = [item for item in read_text(tmp_path, suffix, source) if isinstance(item, Document)]

    lines = [(item.title, item.location.start_line, item.location.end_line) for item in items]
    assert lines == rows


# Lines that no document has, of a kind that is left out everywhere.
LEFT_OUT = re.compile(
    r"\s*(package|import|use|using|pragma|part|library|implicit|//|/?\*|[#!%]|[Cc]( |$)|pass$)"
)


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_missing_line_loses_no_other(tmp_path: Path, name: str) -> None:
    lines = (CODE_FILES / name).read_text().split("\n")
    for missing in range(len(lines)):
        rest = lines[:missing] + lines[missing + 1 :]
        (tmp_path / name).write_text("\n".join(rest))
        texts = [f"{item.body}\n{item.summary}" for item in documents(tmp_path / name)]

        words = set(re.findall(r"\w+", "\n".join(texts)))
        kept = [line for line in rest if not LEFT_OUT.match(line)]
        lost = [line for line in kept if not set(re.findall(r"\w+", line)) <= words]
        assert lost == [], f"without line {missing + 1}"


def test_all_branches_of_the_preprocessor_are_read_in_haskell(tmp_path: Path) -> None:
    source = "#if A\nf = 1\n#else\n-- | Else.\nf = 2\ng = f\n#endif\n"
    first, second, g = definitions(read_text(tmp_path, ".hs", source))

    assert (first.body, second.body, g.body) == ("f = 1", "f = 2", "g = f")
    assert second.summary == "Else."
    assert (second.location.start_line, second.location.end_line) == (5, 5)


def test_lines_outside_definitions(tmp_path: Path) -> None:
    source = (
        '"""Rows of things."""\n\nimport os\n\nWIDTH = 3\n\n\ndef f():\n    pass\n\n\n# about g\n\n'
        'def g():\n    pass\n\n\nif __name__ == "__main__":\n    f()\n'
    )
    document = documents(write(tmp_path, {"pkg/__init__.py": source}))[-1]

    assert document.id == "pkg/__init__.py::(module)"
    assert (document.title, document.fields["name"]) == ("pkg.__init__", "pkg.__init__")
    assert document.body == (
        '"""Rows of things."""\n\nWIDTH = 3\n\nif __name__ == "__main__":\n    f()'
    )
    assert document.summary == "Rows of things."
    assert (document.location.start_line, document.location.end_line) == (1, 19)


def test_modules_end_before_a_long_definition(tmp_path: Path) -> None:
    short, long = ("def f():\n" + "    call()\n" * rows for rows in (19, 20))
    source = f'"Says much."\nA = 1\n{short}B = 2\n{long}C = 3\n'
    modules = [part for part in documents(write(tmp_path, {"one.py": source})) if is_module(part)]

    assert [part.body for part in modules] == ['"Says much."\nA = 1\n\nB = 2', "C = 3"]
    lines = [(part.location.start_line, part.location.end_line) for part in modules]
    assert lines == [(1, 23), (45, 45)]
    assert [part.summary for part in modules] == ["Says much.", ""]


def test_long_modules_are_several_documents(tmp_path: Path) -> None:
    source = "\n\n".join(f"call({number})" for number in range(200)) + "\n"
    parts = documents(write(tmp_path, {"one.py": source}))

    assert [part.id for part in parts[:3]] == [
        "one.py::(module)",
        "one.py::(module)~2",
        "one.py::(module)~3",
    ]
    assert "\n\n".join(part.body for part in parts) + "\n" == source
    assert (
        parts[1].location.start_line == source.split("\n").index(parts[1].body.split("\n")[0]) + 1
    )


def test_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    (document,) = read_text(
        tmp_path, ".py", b'\xef\xbb\xbfdef f():\r\n    """D\xc3\xb6c."""\r\n    return 1\r\n'
    )

    assert isinstance(document, Document)
    assert document.body == 'def f():\r\n    """Döc."""\r\n    return 1'
    assert (document.summary, document.location.start_line, document.location.end_line) == (
        "Döc.",
        1,
        3,
    )


# --- the walk -------------------------------------------------------------------------------------------------------


def test_walk_is_sorted_and_skips_foreign_code(tmp_path: Path) -> None:
    own = ["a.py", "a/c.py", "a/d/e.py", "b.py", "lib/l.py"]
    others = ["node_modules/m.js", "a/__pycache__/p.py", "a/.tox/t.py", ".git/g.py", "venv/v.py"]
    others += ["lib/site-packages/s.py", "env/pyvenv.cfg", "env/bin/e.py"]
    write(tmp_path, dict.fromkeys([*own, *others], ""))
    assert sorted(paths(tmp_path)) == own
    assert paths(tmp_path) == ["a/c.py", "a/d/e.py", "a.py", "b.py", "lib/l.py"]


def test_root_inside_site_packages_is_read(tmp_path: Path) -> None:
    root = (
        write(tmp_path, {"venv/pyvenv.cfg": "", "venv/site-packages/p.py": ""})
        / "venv"
        / "site-packages"
    )
    assert paths(root) == ["p.py"]


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    root = write(tmp_path, {"outside/o.py": "", "root/r.py": ""}) / "root"
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "out").symlink_to(tmp_path / "outside", target_is_directory=True)
    (root / "o.py").symlink_to(tmp_path / "outside" / "o.py")
    (root / "dangling.py").symlink_to(root / "nowhere.py")
    assert paths(root) == ["r.py"]
    (tmp_path / "link").symlink_to(root, target_is_directory=True)
    assert paths(tmp_path / "link") == ["r.py"]


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert read(tmp_path) == []


def test_gitignore_nests_and_negates(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "# comment\n/build/*\n!/build/top.py\nlogs/\ntmp[0-9].py\n\\#hash.py\n",
            "a/.gitignore": "gen/*\n!gen/kept.py\nb/**/k.py\n",
            "z/.gitignore": "!tmp2.py\n",
        },
    )

    kept = ["a/gen/kept.py", "a/x.py", "a/build/y.py", "build/top.py", "z/tmp2.py", "z/k.py"]

    ignored = [
        "a/gen/g.py",
        "a/b/c/k.py",
        "build/o.py",
        "build/x/o.py",
        "logs/l.py",
        "a/logs/l.py",
        "tmp1.py",
    ]

    write(tmp_path, dict.fromkeys([*kept, *ignored, "#hash.py"], ""))
    (tmp_path / "logs" / ".gitignore").write_text("!*\n")

    assert sorted(path for path in paths(tmp_path) if path.endswith(".py")) == sorted(kept)


def test_unusable_gitignore_patterns_are_reported(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".gitignore": f"!\n*a*a*a*a*a*\n{'x' * 600}\nno.py\n", "no.py": "", "a" * 200 + ".py": ""},
    )

    items = list(walk(tmp_path))

    assert [(item.path, item.line) for item in items if isinstance(item, Skipped)] == [
        (".gitignore", 1),
        (".gitignore", 2),
        (".gitignore", 3),
    ]
    assert "no.py" not in items
    assert len([item for item in items if str(item).endswith(".py")]) == 1


def test_file_name_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("")
    (item,) = read(tmp_path)
    assert item == Skipped("caf\ufffd.py", "the file name is not UTF-8")


def test_deleted_directory_is_reported(tmp_path: Path) -> None:
    write(tmp_path, {"a/x.py": "", "b.py": ""})
    items = walk(tmp_path)
    assert next(items) == "a/x.py"
    (tmp_path / "b.py").unlink()
    assert next(items) == "b.py"
    (item,) = list(walk(tmp_path / "nowhere"))
    assert isinstance(item, Skipped)
    assert "cannot be read" in item.reason


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/app.py", "source"),
        ("src/contest.py", "source"),
        ("src/latest.go", "source"),
        ("unittest/case.py", "source"),
        ("distutils/core.py", "source"),
        ("src/Attest.java", "source"),
        ("tests/app.py", "test"),
        ("lib/idle_test/x.py", "test"),
        ("src/test_app.py", "test"),
        ("src/app_test.py", "test"),
        ("conftest.py", "test"),
        ("pkg/x_test.go", "test"),
        ("src/x.spec.ts", "test"),
        ("src/x.test.jsx", "test"),
        ("src/__tests__/x.js", "test"),
        ("a/FooTest.java", "test"),
        ("a/TestFoo.java", "test"),
        ("a/FooTest.php", "test"),
        ("spec/models.rb", "test"),
        ("a/FooTests.cs", "test"),
        ("a/FooTest.kt", "test"),
        ("AppTests/Case.swift", "test"),
        ("contests/case.swift", "source"),
        ("src/list_test.cc", "test"),
        ("test/list_test.exs", "test"),
        ("run.bats", "test"),
        ("benches/sort.rs", "test"),
        ("src/pump/tests.rs", "test"),
        ("src/pump/test.zig", "test"),
        ("src/latest.rs", "source"),
        ("benchmarks/wrk/body.lua", "test"),
        ("src/benchmark.py", "source"),
        ("t/redirect.t", "test"),
        ("xt/author/local/Server.pm", "test"),
        ("t/t-push.sh", "test"),
        ("t/data.c", "source"),
        ("lib/Test/More.pm", "source"),
        ("docs_src/first_steps.py", "example"),
        ("Examples/hello/main.c", "example"),
        ("examples/tests/a.py", "test"),
        ("src/app.pyi", "stub"),
        ("sorbet/lamp.rbi", "stub"),
        ("ext/lamp.phpt", "test"),
        ("index.d.ts", "stub"),
        ("lib/foo_spec.rb", "test"),
        ("lib/lamp_test.dart", "test"),
        ("lib/lamp.g.dart", "generated"),
        ("src/Harbor.t.sol", "test"),
        ("pkg/testdata/x.go", "test"),
        ("vendor/github.com/x/x_test.go", "vendored"),
        ("a/third_party/x.py", "vendored"),
        ("bower_components/x.js", "vendored"),
        ("pip/_vendor/x.py", "vendored"),
        ("dist/app.js", "vendored"),
        ("js/app.bundle.js", "vendored"),
        ("dist/setup.py", "source"),
        ("a/x_pb2.py", "generated"),
        ("a/x.pb.go", "generated"),
        ("a/x.g.ts", "generated"),
        ("a/zz_generated.deepcopy.go", "generated"),
        ("js/jquery.min.js", "minified"),
        ("css/shop.min.css", "minified"),
    ],
)
def test_roles_by_path(path: str, expected: str) -> None:
    assert role(path, b"x = 1\n") == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("// Code generated by stringer. DO NOT EDIT.\npackage p\n", "generated"),
        ("/**\n * @generated\n */\n", "generated"),
        ("# -*- coding: utf-8 -*-\n# This file was automatically generated by X\n", "generated"),
        ("# Autogenerated by tools/x.py\n", "generated"),
        ("\n" * 30 + "# Code generated by x. DO NOT EDIT.\n", "source"),
        ("def f():\n    return 'Code generated, DO NOT EDIT'\n", "source"),
        ("x=1;" * 2000, "minified"),
        ("x = 1\n" * 2000, "source"),
        (
            "#! /bin/sh\n# Guess values.\n# Generated by GNU Autoconf 2.71 for pump 1.4.\n",
            "generated",
        ),
        ("# generated automatically by aclocal 1.16.5 -*- Autoconf -*-\n", "generated"),
        ("/* A Bison parser, made by GNU Bison 3.8.2.  */\n", "generated"),
        ("// Generated from Pump.g4 by ANTLR 4.9.2\n", "generated"),
        ('\n#line 1 "src/pump.rl"\nint pump(void);\n', "generated"),
        ("/* Water is generated by bisons. */\n", "source"),
        ('int x;\n#line 1 "src/pump.rl"\n', "source"),
        # What a compiler made of another file.
        ("export { a };\n\n//# sourceMappingURL=a.js.map\n", "generated"),
        (".a {}\n/*# sourceMappingURL=a.css.map */", "generated"),
        ("//# sourceMappingURL=a.js.map\nexport { a };\n", "source"),
        (
            '"use strict";\nObject.defineProperty(exports, "__esModule", { value: true });\n',
            "generated",
        ),
        ("Object.defineProperty(exports, Symbol.toStringTag, { value: 'Module' });\n", "generated"),
        ("Object.defineProperty(exports, 'name', { value: 1 });\n", "source"),
    ],
)
def test_roles_by_content(content: str, expected: str) -> None:
    assert role("src/a.js", content.encode()) == expected


PUMP_IN_RUST = """
pub fn pump(level: u8) -> u8 { level + 1 }

#[cfg(not(test))]
fn start() {}

#[cfg(any(test, feature = "dry-run"))]
fn dry_run() {}

#[derive(Debug)]
#[cfg_attr(test, derive(PartialEq))]
struct Valve;

impl Valve {
    fn open(&self) {}

    #[cfg(test)]
    fn is_open(&self) -> bool { true }

    fn close(&self) {}
}

#[cfg(all(unix, test))]
mod tests {
    use super::*;

    struct Fixture {
        level: u8,
    }

    fn fixture() -> Fixture { Fixture { level: 0 } }

    impl Fixture {
        fn drain(&self) {}
    }

    #[test]
    fn pumps() { assert_eq!(pump(0), 1); }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn pumps_slowly() {}

fn stop() {}
"""


def test_tests_inside_of_source_files(tmp_path: Path) -> None:
    """What Rust compiles for tests alone is a test, and so is what a test block has in Zig."""
    roles = {each.title: each.fields["role"] for each in read_text(tmp_path, ".rs", PUMP_IN_RUST)}
    tests = {title for title, role in roles.items() if role == "test"}
    assert tests == {
        "Valve.is_open",
        "tests.Fixture",
        "tests.fixture",
        "tests.Fixture.drain",
        "tests.pumps",
        "pumps_slowly",
    }
    assert roles.keys() - tests >= {
        "pump",
        "start",
        "dry_run",
        "Valve",
        "Valve.open",
        "Valve.close",
        "stop",
    }

    zig = 'fn pump() void {}\n\ntest "pumps water" {\n    pump();\n}\n'
    roles = {each.title: each.fields["role"] for each in read_text(tmp_path, ".zig", zig)}
    assert roles == {"pump": "source", "pumps water": "test"}

    kept = read_text(tmp_path, ".zig", zig, secondary="leave-out")
    assert [each.title for each in kept] == ["pump"]


def test_other_roles_stay_where_tests_are_inside(tmp_path: Path) -> None:
    write(tmp_path, {"vendor/pump.rs": PUMP_IN_RUST})
    assert {each.fields["role"] for each in read(tmp_path)} == {"vendored"}


def test_secondary_code_can_be_left_out(tmp_path: Path) -> None:
    code = "def f():\n    pass\n"
    write(tmp_path, {"a.py": code, "tests/t.py": code, "vendor/v.py": code, "x_pb2.py": code})

    assert {d.fields["path"]: d.fields["role"] for d in documents(tmp_path)} == {
        "a.py": "source",
        "tests/t.py": "test",
        "vendor/v.py": "vendored",
        "x_pb2.py": "generated",
    }
    assert len(documents(tmp_path, secondary="keep")) == 4

    items = read(tmp_path, secondary="leave-out")

    assert [item.id for item in items if isinstance(item, Document)] == ["a.py::f"]
    assert [item for item in items if isinstance(item, Skipped)] == [
        Skipped("tests/t.py", "left out as test code", by_choice=True),
        Skipped("vendor/v.py", "left out as vendored code", by_choice=True),
        Skipped("x_pb2.py", "left out as generated code", by_choice=True),
    ]


# --- what cannot be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason", "line"),
    [
        (b"x = 1\ny = '\x81'\n", "not UTF-8", 2),
        (b"x = 1\n\0\n", "binary", None),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than 2 MiB", None),
    ],
)
def test_file_that_is_not_text_is_skipped(
    tmp_path: Path, content: bytes, reason: str, line: int | None
) -> None:
    (item,) = read_text(tmp_path, ".py", content)
    assert isinstance(item, Skipped)
    assert (item.path, item.line) == ("one.py", line)
    assert reason in item.reason


def test_file_changed_after_listing_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f(): pass", "b.py": "def g(): pass"})
    gone, changed = files(tmp_path)

    assert isinstance(gone, SourceFile)
    assert isinstance(changed, SourceFile)

    (tmp_path / "a.py").unlink()
    (tmp_path / "b.py").write_text("def h(): pass")

    assert list(gone.read()) == [
        Skipped("a.py", "cannot be read: No such file or directory", passing=True)
    ]

    reason = "changed while it was being read; build again to include it"

    assert list(changed.read()) == [Skipped("b.py", reason, passing=True)]


def test_digest_covers_content_name_and_options(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f(): pass", "b.py": "def f(): pass", "c/a.py": "def g(): pass"})

    def digests(root: Path, secondary: Secondary = "demote") -> list[str]:
        return [
            file.digest for file in files(root, secondary=secondary) if isinstance(file, SourceFile)
        ]

    assert digests(tmp_path) == digests(tmp_path)

    every = digests(tmp_path) + digests(tmp_path / "c") + digests(tmp_path, "leave-out")

    assert len(set(every)) == len(every) == 7


def test_a_file_with_its_stamp_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.py": "def f(): pass", "b.py": "def g(): pass"})
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    listing = listed(tmp_path)
    stamps = {path: (file.stamp, file.digest) for path, file in listing.items() if file.stamp}
    assert set(stamps) == {"a.py", "b.py"}

    opened: list[str] = []

    def read_and_note(path: Path, name: str) -> FileContent | Skipped:
        opened.append(name)
        return read_bounded(path, name)

    monkeypatch.setattr("purlin.index.sources.code.repository.read_bounded", read_and_note)

    unchanged = listed(tmp_path, digests=stamps)

    assert opened == []
    assert [(f.digest, f.stamp) for f in unchanged.values()] == [
        (f.digest, f.stamp) for f in listing.values()
    ]
    assert [document.id for document in unchanged["a.py"].read()] == ["a.py::f"]  # type: ignore[union-attr]

    # Of the same size, and with the time of the last write set back.
    times = (tmp_path / "b.py").stat()
    (tmp_path / "b.py").write_text("def h(): pass")
    os.utime(tmp_path / "b.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    opened.clear()

    changed = listed(tmp_path, digests=stamps)

    assert opened == ["b.py"]
    assert changed["b.py"].digest != listing["b.py"].digest


def test_digests_of_other_options_are_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"tests/a.py": "def f(): pass", "b.py": "def f(): pass"})
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    stamps = {path: (file.stamp, file.digest) for path, file in listed(tmp_path).items()}

    assert set(listed(tmp_path, digests=stamps)) == {"tests/a.py", "b.py"}
    assert set(listed(tmp_path, digests=stamps, secondary="leave-out")) == {"b.py"}


def test_a_grammar_that_was_installed_since_reads_its_files_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.dart": "int f() => 1;", "b.py": "def f(): pass"})
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    with monkeypatch.context() as before:
        before.delitem(BY_SUFFIX, ".dart")
        listing = listed(tmp_path)
        assert [document.id for document in listing["a.dart"].read()] == ["a.dart::(text)"]  # type: ignore[union-attr]

    stamps = {path: (file.stamp, file.digest) for path, file in listing.items() if file.stamp}
    again = listed(tmp_path, digests=stamps)
    assert again["a.dart"].digest != listing["a.dart"].digest
    assert [document.id for document in again["a.dart"].read()] == ["a.dart::f"]  # type: ignore[union-attr]
    assert again["b.py"].digest == listing["b.py"].digest


def test_a_file_that_has_just_changed_has_no_stamp(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def f(): pass"})
    assert listed(tmp_path)["a.py"].stamp is None


def test_stamps_of_several_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"x/a.py": "def f(): pass", "y/a.py": "def f(): pass"})
    roots = [tmp_path / "x", tmp_path / "y"]
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    first = [file for file in open_source("code", roots) if isinstance(file, SourceFile)]
    stamps = {file.path: (file.stamp, file.digest) for file in first if file.stamp}

    monkeypatch.setattr(
        "purlin.index.sources.code.repository.read_bounded", lambda _path, name: Skipped(name, "")
    )
    again = [
        file for file in open_source("code", roots, digests=stamps) if isinstance(file, SourceFile)
    ]

    assert [(f.path, f.digest) for f in again] == [(f.path, f.digest) for f in first]


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    assert read(tmp_path / "a.py") == [Skipped("a.py", "not a regular file")]


def test_lines_with_a_syntax_error_are_read_without_their_definition(tmp_path: Path) -> None:
    items = read_text(
        tmp_path,
        ".js",
        "function a() {}\n\nfunction b() {\n  return 1 +* ;\n}\n\nfunction c() {}\n",
    )

    assert [item.title for item in definitions(items)] == ["a", "c"]

    rest = items[-1]
    assert isinstance(rest, Document)
    assert rest.body == "function b() {\n  return 1 +* ;\n}"
    assert (rest.location.start_line, rest.location.end_line) == (3, 5)


def test_class_survives_an_error_in_a_method(tmp_path: Path) -> None:
    inside = read_text(
        tmp_path, ".java", "class A {\n  int a() { return 1 +* ; }\n  int b() { return 2; }\n}\n"
    )
    assert [item.title for item in definitions(inside)] == ["A", "A.b"]
    for error, expected in (("1 +* ;", ["A", "A.b"]), ("1 +\n * ;", ["A.b"])):
        beside = read_text(
            tmp_path, ".java", f"class A {{\n  int x = {error}\n  int b() {{ return 2; }}\n}}\n"
        )
        assert [item.title for item in definitions(beside)] == expected


def test_a_class_has_a_line_that_the_grammar_cannot_read(tmp_path: Path) -> None:
    ruby = "class Kettle\n  def stop\n    1\n  end\n\n  alias_method :☠, :stop\nend\n"
    outline, method = read_text(tmp_path, ".rb", ruby)
    assert (outline.title, method.title) == ("Kettle", "Kettle.stop")
    assert (outline.location.start_line, outline.location.end_line) == (1, 7)


def test_nothing_but_errors(tmp_path: Path) -> None:
    (document,) = documents(write(tmp_path, {"one.py": "x = = 1\n"}))
    assert (document.title, document.fields["kind"], document.body) == ("one", "module", "x = = 1")


@pytest.mark.parametrize("suffix", [suffix for each in LANGUAGES for suffix in each.suffixes[:1]])
def test_deep_nesting_neither_crashes_nor_hangs(tmp_path: Path, suffix: str) -> None:
    start = time.monotonic()
    for bracket in "([{":
        read_text(tmp_path, suffix, bracket * 100_000)
    assert time.monotonic() - start < 60


def test_slow_parse_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purlin.index.sources.code.syntax.PARSE_SECONDS", 0)
    source = "def f(): pass\n" * 5000
    first, *windows = read_text(tmp_path, ".py", source)

    assert first == Skipped("one.py", "takes more than 5 s to parse", passing=True)
    assert "\n".join(window.body for window in windows if isinstance(window, Document)) == (
        source.rstrip("\n")
    )


def test_too_deeply_nested_definitions_are_left_out(tmp_path: Path) -> None:
    source = (
        "".join(f"{' ' * depth}class C{depth}:\n" for depth in range(60)) + " " * 60 + "x = 1\n"
    )
    items = read_text(tmp_path, ".py", source)
    assert len(items) == MAX_NESTING
    assert max(len(item.context) for item in items if isinstance(item, Document)) == MAX_NESTING - 1


def test_endless_names_or_signatures_are_bounded(tmp_path: Path) -> None:
    assert definitions(read_text(tmp_path, ".py", f"def {'f' * 1000}(): pass\n")) == []
    parameters = ", ".join(f"p{number}" for number in range(500))
    (document,) = read_text(tmp_path, ".py", f"def f({parameters}): pass\n")
    assert isinstance(document, Document)
    assert len(str(document.fields["signature"])) == 300


def test_a_file_of_an_unknown_kind_is_read_if_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"notes.xyz": "hello", "image.png": "hello"})
    assert read(tmp_path) == []
    (document,) = documents(tmp_path / "notes.xyz")
    assert (document.title, document.body) == ("notes.xyz", "hello")
    assert read(tmp_path / "image.png") == [Skipped("image.png", "not text")]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=400), suffix=st.sampled_from(sorted(BY_SUFFIX)))
def test_arbitrary_bytes_never_raise(tmp_path: Path, content: bytes, suffix: str) -> None:
    for item in read_text(tmp_path, suffix, content):
        assert isinstance(item, Document | Skipped)


_FRAGMENTS = [
    "def f(a):\n", "    ", "class A:\n", "class A {", "}", "function f(", ") {", "é = 1;\n", "/** d */\n", "# c\n",
    "// c\n", "@x\n", "end\n", "module M\n", "<?php ", "func (t T) M() {", "const a = () => ", "export ", '"""', "\n",
]  # fmt: skip


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(st.sampled_from(_FRAGMENTS), max_size=25),
    suffix=st.sampled_from(sorted(BY_SUFFIX)),
)
def test_broken_code_gives_consistent_documents(
    tmp_path: Path, parts: list[str], suffix: str
) -> None:
    source = "".join(parts)
    definitions = [
        item for item in read_text(tmp_path, suffix, source) if isinstance(item, Document)
    ]

    assert len({document.id for document in definitions}) == len(definitions)

    for document in definitions:
        for span in document.atoms:
            assert 0 <= span.start < span.end <= len(document.body)
        if document.fields["kind"] in {"function", "method"}:
            assert document.body in source


def test_shell_script_beyond_ascii(tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text(
        '# 部署 \U0001f680 a release\ndeploy() {\n  echo "“{\U0010ffff”"\n}\n', encoding="utf-8"
    )

    (document,) = _opened(script)

    assert document.title == "deploy"
    assert document.summary == "部署 \U0001f680 a release"
    assert "“{\U0010ffff”" in document.body


# --- open_source ----------------------------------------------------------------------------------------------------


def test_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere") as caught:
        open_source("code", [tmp_path, tmp_path / "nowhere"])
    assert caught.value.field == "path"


def test_no_path_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no path"):
        open_source("code", [])
    with pytest.raises(InvalidInput, match="music"):
        open_source("music", [tmp_path])  # type: ignore[arg-type]


def _opened(*roots: Path) -> list[Document]:
    sources = [file for file in open_source("code", roots) if isinstance(file, SourceFile)]
    return [item for file in sources for item in file.read() if isinstance(item, Document)]


def test_several_roots_get_prefixes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "x/app/a.py": "def f(): pass",
            "y/app/a.py": "def f(): pass",
            "y/lib/a.py": "def f(): pass",
        },
    )

    assert [d.id for d in _opened(tmp_path / "x" / "app")] == ["a.py::f"]

    items = _opened(tmp_path / "x" / "app", tmp_path / "y" / "app", tmp_path / "y" / "lib")

    assert [d.id for d in items] == ["app/a.py::f", "app~2/a.py::f", "lib/a.py::f"]
    assert [d.location.path for d in items] == ["app/a.py", "app~2/a.py", "lib/a.py"]


def test_prefixes_apply_to_skipped_files_and_digests(tmp_path: Path) -> None:
    write(tmp_path, {"x/a.py": "def f(): pass", "y/a.py": "def f(): pass"})
    (tmp_path / "y" / "b.py").write_bytes(b"\0")
    items = list(open_source("code", [tmp_path / "x", tmp_path / "y"]))
    assert [item.path for item in items] == ["x/a.py", "y/a.py", "y/b.py"]
    digests = [item.digest for item in items if isinstance(item, SourceFile)]
    assert len(set(digests)) == 2


@pytest.fixture
def denied() -> Iterator[Path]:
    """Of `listed` only the names can be read, of `closed` nothing; beside them are readable files."""
    paths = [
        f"{folder}/a.{suffix}"
        for folder in ("listed", "closed", "open")
        for suffix in ("csv", "html", "py")
    ]

    with tempfile.TemporaryDirectory() as name:
        root = write(Path(name), dict.fromkeys(paths, ""))
        root.chmod(0o755)
        (root / "listed").chmod(0o644)
        (root / "closed").chmod(0)
        yield root
        (root / "listed").chmod(0o755)
        (root / "closed").chmod(0o755)


@pytest.mark.parametrize(
    ("kind", "suffix"), [("product", "csv"), ("reference", "html"), ("code", "py")]
)
def test_unreadable_files_are_reported(denied: Path, kind: Kind, suffix: str) -> None:
    # Imports the reader while the interpreter's own library can be read.
    list(names(kind, [denied]))

    with unprivileged():
        items = list(open_source(kind, [denied]))
        assert f"open/a.{suffix}" in set(names(kind, [denied]))

    assert f"open/a.{suffix}" in [item.path for item in items if isinstance(item, SourceFile)]

    reasons = {item.path.rstrip("/"): item.reason for item in items if isinstance(item, Skipped)}

    assert reasons["closed"] == "the directory cannot be read: Permission denied"
    assert reasons[f"listed/a.{suffix}"] == "cannot be read: Permission denied"


def test_unreadable_roots_are_refused(denied: Path, tmp_path: Path) -> None:
    with (
        unprivileged(),
        pytest.raises(InvalidInput, match=r"listed/a\.py' cannot be read: Permission denied"),
    ):
        open_source("code", [denied / "listed" / "a.py"])

    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd, target_is_directory=True)

    for root in (odd, tmp_path / "link"):
        with pytest.raises(InvalidInput, match="is not UTF-8; rename it"):
            open_source("code", [root])


def test_secondary_reaches_the_reader(tmp_path: Path) -> None:
    write(tmp_path, {"tests/a.py": "def f(): pass"})
    (item,) = open_source("code", [tmp_path], secondary="leave-out")
    assert item == Skipped("tests/a.py", "left out as test code", by_choice=True)
