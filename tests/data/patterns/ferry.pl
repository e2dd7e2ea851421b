% Ferries between islands.
:- module(ferry, [route/3, sails/2]).
:- use_module(library(lists)).

:- dynamic ferry/2.

%!  route(+From, +To, -Route) is nondet.
%
%   Route leads from one island to another.
route(From, To, [From, To]) :-
    sails(From, To),
    \+ closed(From).
route(From, To, [From|Rest]) :-
    sails(From, Next),
    format("~w. ~a~n", [Next, 'end. ']),
    route(Next, To, Rest).

sails(hven, ven).
sails(ven, 'Saint X').

flag(1, 2'0101).

timetable --> [], !.
timetable --> entry, timetable.

user:portray(ferry(Name)) :- write(Name).
