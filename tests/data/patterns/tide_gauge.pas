{ Gauges of the tide.
  They are read each minute. }
unit TideGauge;

{$mode objfpc}

interface

uses
  SysUtils, Classes;

type
  TState = (tsEbb, tsFlood,
            tsSlack);
  ENoGauge = class(Exception);
  TGauge = class;

  { A gauge at a pier. }
  TGauge = class(TComponent)
  private
    FLevel: Double;
    type
      TMark = packed record
        Height: Double;
        case Boolean of
          True: (Text: string[8]);
      end;
  public
    constructor Create(AOwner: TComponent); override;
    procedure Read(const Station: string); virtual;
    class function Mean(const Levels: array of Double): Double; static;
    property Level: Double read FLevel;
  end;

  INamed = interface(IUnknown)
    ['{D0C1A9F4-0000-4000-8000-000000000001}']
    function Name: string;
  end;

function Half(X: Double): Double;

implementation

function CLevel(Handle: Pointer): Double; cdecl; external 'tide' name 'level';

procedure Log(const Text: string); forward;

// Halves a height.
function Half(X: Double): Double;
begin
  Result := X / 2;
end;

constructor TGauge.Create(AOwner: TComponent);
begin
  inherited Create(AOwner);
end;

{ Computes the level from the signal of a station,
  and keeps it. }
procedure TGauge.Read(const Station: string);
var
  Mark: TMark;

  procedure Check(Value: Double);
  begin
    if Value < 0 then
      raise ENoGauge.Create('end; { no level }');
  end;

begin
  case Length(Station) of
    0: Exit;
    1:
      begin
        try
          Check(CLevel(nil));
        finally
          Log('read');
        end;
      end;
  end;
end;

class function TGauge.Mean(const Levels: array of Double): Double;
{$ifdef FAST}
begin
{$else}
begin
{$endif}
  Result := 0;
end;

class operator TMark.= (const A, B: TMark): Boolean;
begin
  Result := A.Height = B.Height;
end;

function Ticks: Integer; assembler; nostackframe;
asm
  rdtsc
end;

procedure Log(const Text: string);
begin
  WriteLn(Text);
end;

end.
