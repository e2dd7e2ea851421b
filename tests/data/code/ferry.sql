-- Crossings of the ferry.
CREATE TABLE IF NOT EXISTS river.crossings (
  id SERIAL PRIMARY KEY,
  people INT NOT NULL
);

CREATE INDEX crossings_people ON river.crossings (people);

/* Crossings with nobody on board. */
CREATE OR REPLACE VIEW "empty_crossings" AS
SELECT id FROM river.crossings WHERE people = 0;

-- Counts all people.
CREATE OR REPLACE FUNCTION river.carried(since DATE) RETURNS INT AS $$
BEGIN
  RETURN (SELECT sum(people) FROM river.crossings);
END;
$$ LANGUAGE plpgsql;

CREATE TYPE side AS ENUM ('left', 'right');

CREATE TRIGGER counted AFTER INSERT ON crossings
FOR EACH ROW EXECUTE FUNCTION river.carried();

-- Nobody sees another river.
CREATE POLICY own_river ON river.crossings
  USING (river = current_setting('ferry.river'));

CREATE SEQUENCE tickets START 1000;

-- Counts tickets, as SQLite has it.
CREATE TRIGGER sold AFTER INSERT ON tickets WHEN NEW.paid BEGIN
  UPDATE river.crossings
    SET people = people + CASE WHEN NEW.child THEN 0 ELSE 1 END;
  DELETE FROM cart;
END;

INSERT INTO river.crossings (people) VALUES (3), (4);
