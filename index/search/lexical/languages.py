"""The languages that texts are searched in: how their words are stemmed, and how to detect them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

LANGUAGE_FILE = "language.txt"
# The language is detected by so many characters of the texts.
SAMPLE_CHARS = 200_000
# At least so many common words of the language must occur, so many of them distinct; so large a share of
# all words must be common ones, and so many times as many as are common in English or `_ELSEWHERE`.
_FEWEST_WORDS, _FEWEST_DISTINCT, _LEAST_SHARE, _TIMES_ENGLISH = 10, 5, 0.01, 2

_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """A language: Snowball's name of its stemmer, and its common words, without marks.

    Searches leave out the words of `common`, but not `others`, which may say something about a product,
    such as "without". The stemmer cuts off `endings`. `links` may be between the words of a compound;
    languages that write compounds as several words have none.
    """

    name: str
    common: frozenset[str]
    others: frozenset[str]
    endings: tuple[str, ...]
    links: tuple[str, ...] = ()


def _language(name: str, common: str, others: str, endings: str, links: str = "") -> Language:
    return Language(
        name,
        frozenset(common.split()),
        frozenset(others.split()),
        ("", *endings.split()),
        ("", *links.split()) if links else (),
    )


ENGLISH = _language(
    "english",
    "a an and are as at be by can do does for from how i if in into is it its of on or so that the their then there "
    "these this to was what when where which with you your",
    "all also been but has have more no not our out than up we will without they",
    "s e es ed er ers or ors ion ions ator ators ation ing ings al ic able ment ness ity ive",
)
GERMAN = _language(
    "german",
    "als am an auch auf aus bei bis da damit das dass dem den der des die diese dieser dieses doch durch ein eine "
    "einem einen einer eines er es fur hat ich ihr ihre im in ist ja je kann mit nach noch ob oder sein sich sie sind "
    "so um und uns vom von vor was wenn werden wie wird zu zum zur",
    "aber gegen nicht nur ohne sehr uber unter",
    "e en em er es ern n s et ung ungen heit lich ig isch",
    "s n en es er e",
)
FRENCH = _language(
    "french",
    "a au aux avec c ce ces cet cette d dans de des du elle en est et il ils j je l la le les leur leurs lui mais "
    "n ne nos notre nous on ou par pour qu que qui s sa se ses si son sont sur un une vos votre vous y",
    "pas plus sans sous tous tout toute toutes tres",
    "e es s ee ees er ant ante ement ements ation ations eur eurs euse euses ique iques able ables x",
)
DUTCH = _language(
    "dutch",
    "aan al als bij dan dat de den der deze die dit doe door een en er het hier hij hoe ik in is je kan maar "
    "met mijn naar nog of om ook op te tot uit uw van voor waar wat we wel wordt ze zich zijn zo",
    "geen niet onder over tegen tussen veel zeer zonder",
    "e en s es er ers je jes ing ingen ig ige heid lijk lijke t",
    "s n en e er",
)
SPANISH = _language(
    "spanish",
    "a al como cual cuando con de del desde e el ella en es esta este esto estos estas la las le les lo los mi "
    "nos o para pero por que se ser si son su sus te tiene tu un una unas uno unos y ya",
    "entre hasta mas muy sin sobre tambien todo todos",
    "o a os as e es ado ada ados adas ar ante antes able ables cion ciones mente ito ita",
)
ITALIAN = _language(
    "italian",
    "a ad ai al alla alle agli che chi ci come con da dai dal dalla dalle d degli dei del dell della delle di "
    "e ed gli ha i il in io l la le lo ma nei nel nell nella nelle o per quando questa questo se si sia "
    "sono su sua sui sul sull sulla suo tra un una uno",
    "anche non piu senza tutti tutto",
    "o a i e ato ata ati ate are ante anti abile abili zione zioni mente ino ina",
)
SWEDISH = _language(
    "swedish",
    "allt att av de den denna det dig din dina ditt du eller en ett for fran han har hos i kan med men nar ni och om "
    "pa samt sig sin sina sitt som sa till upp var vi vid ar",
    "aven efter ej inte mer mot mycket mellan over under utan",
    "a ar arna as en et er erna ens ets ad ade ande are eri e or orna n s t ig iga lig liga ning ningar het",
    "s e o",
)
POLISH = _language(
    "polish",
    "a aby albo byc ci co czy dla do gdy go i ich ile jak jako jego jej jest juz kazdy kiedy ktora ktore ktory "
    "ktorych lub ma na o od oraz po przez przy sa sie ta tak takze tam te ten tego to tu tych tym u w we "
    "wraz z za ze",
    "ale bez bardzo nie tylko",
    "a e i y o u ow om ami ach iem em ej ego emu ych ich ym im ymi imi owy owa owe ny na ne nych nego nie osc ka ki",
)
LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (ENGLISH, GERMAN, FRENCH, DUTCH, SPANISH, ITALIAN, SWEDISH, POLISH)
}
# Common words of languages that are searched as English although they share many with a language above:
# Danish and Norwegian, Portuguese, Czech and Slovak; without "dos", which is Spanish, too, and "pro", which
# names of products have.
_ELSEWHERE = frozenset(
    "af blev blir bliver eller fra hvis ikke kun noe nogle og ogsa til uden uten ved "
    "ao aos com em foi mais na nao nas nos ou pela pelo sao seu sua um uma voce "
    "aj alebo az byl je jeho jsou ke ked kde ktera ktere ktery nebo podle pre pri se si su take tez vas ve".split()
)


def _telling_words() -> dict[Language, frozenset[str]]:
    """Return by language its common words, of two letters or more, that no other language has."""
    common = {language: language.common | language.others for language in LANGUAGES.values()}
    languages_of = Counter(chain.from_iterable(common.values()))
    return {
        language: frozenset(word for word in own if languages_of[word] == 1 and len(word) > 1)
        for language, own in common.items()
    }


_TELLING = _telling_words()


def detect(texts: Iterable[str]) -> Language:
    """Return the language that clearly dominates the texts, else English.

    The texts are in lower case and without marks on letters.
    """
    words = Counter(word for text in texts for word in _WORD.findall(text))
    counts = {
        language: sum(words[word] for word in telling) for language, telling in _TELLING.items()
    }
    english = counts.pop(ENGLISH)
    best = max(counts, key=counts.__getitem__)
    elsewhere = sum(words[word] for word in _ELSEWHERE - best.common - best.others)

    fewest = max(
        _FEWEST_WORDS,
        _LEAST_SHARE * words.total(),
        _TIMES_ENGLISH * (english + elsewhere),
    )
    is_clear = counts[best] >= fewest and len(words.keys() & _TELLING[best]) >= _FEWEST_DISTINCT
    return best if is_clear else ENGLISH
