@0xdbb9ad1f14bf0b36;
struct Person {
  # A person.
  name @0 :Text;
  struct Phone { number @0 :Text; }
}
interface Directory {
  find @0 (name :Text) -> (person :Person);
}
