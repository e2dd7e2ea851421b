library ieee;
use ieee.std_logic_1164.all;

-- Levels of a sluice
package sluice_pkg is
  type state_t is (idle, filling);
  type ports_t is record
    level : integer;
  end record;
  -- Limits a level.
  function clamp (level : integer; top : integer := 8) return integer;
end package sluice_pkg;

package body sluice_pkg is
  function clamp (level : integer; top : integer := 8) return integer is
  begin
    if level > top then
      return top;
    end if;
    return level;
  end function clamp;
end package body;

-- Opens the gate when the basin is full.
entity sluice is
  generic (width : positive := 8);
  port (
    clk  : in std_logic;
    open_gate : out std_logic
  );
end entity sluice;

architecture rtl of sluice is
  component valve is
    port (clk : in std_logic);
  end component;
  signal full : std_logic := '0';
begin
  lanes : for i in 0 to width - 1 generate
    u_valve : valve port map (clk => clk);
  end generate;

  u_mirror : entity work.mirror(rtl) port map (clk => clk);

  -- Counts the water.
  fill : process (clk)
    variable count : integer := 0;
  begin
    if rising_edge(clk) then
      case count is
        when 0 => count := 1;
        when others => full <= '1';
      end case;
    end if;
  end process fill;

  open_gate <= full;
end rtl;
