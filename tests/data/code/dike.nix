# Dikes along the river.
{ lib, stdenv, fetchurl ? null, ... }@args:

let
  height = 3;

  /* Raises all dikes. */
  raise-all = metres: dikes: map (dike: dike // { height = dike.height + metres; }) dikes;

  settings = {
    north = 4;
    south = { top, foot ? 0 }: top - foot;
  };
in
rec {
  inherit (lib) id;

  /**
    The dike of a name.
  */
  lib.dikes.find = name:
    lib.findFirst (dike: dike.name == name) null;

  "two words" = x: x;

  # Sand for all of them.
  sand = stdenv.mkDerivation rec {
    pname = "sand";
    src = fetchurl {
      url = "http://localhost/${pname}.tar.gz";
    };
    meta = {
      description = "Sand";
    };
  };

  options.services.dike = lib.mkOption {
    default = 80;
  };
}
