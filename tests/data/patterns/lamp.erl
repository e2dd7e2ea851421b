%% @doc Lamps along the quay.
-module(lamp).
-export([light/1, dim/2]).
-include("lamp.hrl").

-define(HALF(X), (X / 2)).
-record(lamp, {name, level = 1.0}).

-type level() :: float().

%% @doc Lights a lamp until dawn.
%% It stays on.
-spec light(#lamp{}) -> ok.
light(#lamp{name = "a.b. "} = L) when L =/= $. ->
    io:format("~p.~n", [L]),
    ok;
light(_) ->
    error.

-doc "Dims a lamp by a factor.".
-spec dim(#lamp{}, level()) -> #lamp{}.
dim(L, F) ->
    X = fun(Y) -> Y * F end,
    L#lamp{level = X(L#lamp.level)}.

%% not exported
'odd name'() -> 1.5.
