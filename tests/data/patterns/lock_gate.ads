--  Gates of a lock { between two basins.

with Ada.Strings;

package Harbor.Lock_Gate is

   type Level is private;

   type Ship (Has_Mast : Boolean := False) is record
      Length : Metres;
      case Has_Mast is
         when True => Height : Metres;
         when False => null;
      end case;
   end record;
   --  What passes through the lock.

   procedure Raise_Water
     (Basin : in out Level;
      By    : Metres := 1.0);
   --  Raises the water of a basin.
   --  It stops at the top.

   function "+" (Left, Right : Level) return Level;

   generic
      type Item is private;
      with procedure Show (X : Item);
   package Queues is
      procedure Append (X : Item) with Pre => (True);
   end Queues;

   package Ships is new Queues (Ship, Put);

   protected type Signal (Colour : Hue) is
      entry Wait;
      procedure Set;
   private
      Is_Set : Boolean := False;
   end Signal;

private
   type Level is new Float;
end Harbor.Lock_Gate;
