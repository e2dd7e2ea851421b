"""Definitions in a file of each language that a grammar reads, against a list of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.sources.code.languages import BY_SUFFIX
from tests.support.code_documents import CODE_FILES, documents, is_module

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


def test_ids_are_unique_and_stable() -> None:
    ids = [document.id for document in documents(CODE_FILES)]
    assert len(set(ids)) == len(ids)
    assert ids == [document.id for document in documents(CODE_FILES)]
    assert {"shelf.py::Shelf.size", "shelf.py::Shelf.size~2", "Ledger.java::Ledger.sum~2"} <= set(
        ids
    )


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
