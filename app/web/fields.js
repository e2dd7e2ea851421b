// Fields of documents as people read them: labels, and values with their units.

import { number } from "./dom.js";

// Units as they are written behind a number; in the name of a field they are in any case.
const UNITS = new Map(
  "mm cm m km in inch inches ft mg g kg lb oz ml l W kW Wh kWh V mAh Hz kHz MHz GHz kB MB GB TB K °C dB lm ms s min h %"
    .split(" ")
    .map((unit) => [unit.toLowerCase(), unit]),
);

/** The label of a field and, if its values are numbers, their unit: `attrs.power_w` is Power, in W. */
export function reading(name, isNumeric) {
  const label = words(name);
  const [, quantity, unit] = label.match(/^(.*[^ ([])[ ([]+([^ ([\])]+)[\])]?$/) ?? [];
  const written = isNumeric && UNITS.get(unit?.toLowerCase());
  return written ? { label: quantity, unit: written } : { label, unit: "" };
}

/** `attrs.usb_socket` -> `Usb socket`. */
export function words(field) {
  const name = field.split(".").pop().replaceAll("_", " ").trim();
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** A field's value; a number has its unit behind it. */
export function shown(value, unit = "") {
  if (typeof value === "boolean") return value ? "Yes" : "No";
  return typeof value === "number" ? `${number(value)} ${unit}`.trim() : String(value);
}
