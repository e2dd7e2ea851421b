/// A lighthouse, its lamps and whatever else shines in it.
library lighthouse;

import 'dart:async';
part 'lighthouse.g.dart';

/// Metres from which each lamp is seen.
const Map<String, int> reach = {
  'north': 4000,
  'south': 3200,
};

typedef Watch = Future<void> Function(DateTime at);

/// How a lamp shines.
enum Signal {
  steady(0),
  flashing(3);

  const Signal(this.seconds);
  final int seconds;

  /// Whether it is dark at times.
  bool get pauses => seconds > 0;
}

/// Lights all lamps, one after another.
Future<void> lightAll(List<Lamp> lamps, {bool slowly = false}) async {
  void light(Lamp lamp) => lamp.power++;
  lamps.forEach(light);
}

int twice(int n) => n * 2;

/// Something that shines.
///
/// It needs oil.
@immutable
abstract class Lamp<T extends Object> extends Fixture with Glow implements Comparable<Lamp> {
  Lamp(this.name, {required this.power}) : assert(power > 0);

  /// A lamp without power.
  const Lamp.dark(String name) : this(name, power: 0);

  factory Lamp.read(Map<String, Object?> row) {
    return SmallLamp(row['name'] as String);
  }

  final String name;
  static const table = {
    1: 'one',
    2: 'two',
  };

  // Candela.
  double get brightness => power * 0.8;

  set brightness(double value) {
    power = value ~/ 0.8;
  }

  @override
  bool operator ==(Object other) =>
      other is Lamp && other.name == name;

  /** Ships that pass. */
  Stream<(int, String)> ships() async* {
    yield switch (power) {
      > 3 when true => (1, 'größer'),
      _ => (0, ''),
    };
  }

  void refill();
}

mixin Glow on Fixture {
  void glow() {}
}

extension Lamps on List<Lamp> {
  int get power => fold(0, (sum, lamp) => sum + lamp.power);
}

extension on String {
  String get lit => '*$this*';
}

extension type Candela(double value) {
  double get watts => value / 2;
}

class Calm = Sea with Glow;

@pragma('vm:external-name', 'depth')
external int depth();

set level(int value) {}

void main() => lightAll([]);
