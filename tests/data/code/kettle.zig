//! Boils water.
const std = @import("std");

/// What can go wrong.
pub const Fault = error{ Dry, Cold };

pub const Kettle = struct {
    litres: f32,

    const Lid = enum { open, shut };

    /// Fills the kettle.
    pub fn fill(self: *Kettle, litres: f32) !void {
        self.litres += litres;
    }
};

/// Keeps things in a row.
pub fn Row(comptime T: type) type {
    return struct {
        items: []T,

        pub fn first(self: @This()) T {
            return self.items[0];
        }
    };
}

const names = [_][]const u8{
    "tea",
    "coffee",
};

fn boil(kettle: Kettle) void {
    _ = kettle;
}

test "boils" {
    boil(.{ .litres = 1 });
}
