with Ada.Text_IO; use Ada.Text_IO;

package body Harbor.Lock_Gate is

   type State is (Open, Closed);

   -----------
   -- Raise_Water --
   -----------

   procedure Raise_Water (Basin : in out Level; By : Metres := 1.0) is
      function Full return Boolean is (Basin >= Top);
      procedure Note (Text : String) is
      begin
         Put_Line ("end Note; -- " & Text);
      end Note;
   begin
      if Full then
         return;
      end if;
      Pump : loop
         declare
            Mark : constant Character := ''';
         begin
            exit Pump when Basin >= Top;
         end;
      end loop Pump;
   end Raise_Water;

   function "+" (Left, Right : Level) return Level is
   begin
      return Result : Level do
         Result := Level'(Left) + Right;
      end return;
   end "+";

   procedure Wait is null;

   task body Keeper is
   begin
      accept Start do
         Wait;
      end Start;
   end Keeper;

end Harbor.Lock_Gate;
