"""The languages that texts are searched in: how their words are stemmed, and how to detect them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    languages that write compounds as several words have none. `plurals` maps those that change a vowel
    to the singular: no stemmer does, as these are few.
    """

    name: str
    common: frozenset[str]
    others: frozenset[str]
    endings: tuple[str, ...]
    links: tuple[str, ...] = ()
    plurals: Mapping[str, str] = field(default_factory=dict)


def _language(
    name: str, common: str, others: str, endings: str, links: str = "", plurals: str = ""
) -> Language:
    pairs = plurals.split()
    return Language(
        name,
        frozenset(common.split()),
        frozenset(others.split()),
        ("", *endings.split()),
        ("", *links.split()) if links else (),
        dict(zip(pairs[::2], pairs[1::2], strict=True)),
    )


ENGLISH = _language(
    "english",
    "a an and are as at be by can do does for from how i if in into is it its of on or so that the their then there "
    "these this to was what when where which with you your",
    "all also been but has have men more no not our out over than under up we will without they",
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
    "bocker bok fotter fot hander hand tander tand natter natt stader stad morotter morot",
)
DANISH = _language(
    "danish",
    "af alle at bliver da de den denne der deres det dette dig din dine dit du eller en er for fra han har hun hver "
    "hvis hvor i ind jeg kan med men min mit ned nar og ogsa om op os pa samt sig sin sine som til ud ved vi vores",
    "efter ikke ingen kun meget mod nogle over under uden",
    "e en er ens erne ernes ers es et ets ede ende ene eret hed s ig ige lig lige ning ninger t",
    "s e",
    "boger bog born barn fodder fod haender hand taender tand maend mand taenger tang",
)
NORWEGIAN = _language(
    "norwegian",
    "alle at av blir da de deg den denne deres det dette din dine ditt du eller en er for fra ha han har hun hver "
    "hvis hvor i inn jeg kan med men min mitt ned nar og ogsa om opp oss pa samt seg sin sine som til ut ved vi vare",
    "etter ikke ingen kun mot mye noe noen over under uten veldig",
    "a e en er ene ens enes ers es et ets ede ende ane ar het s ig ige lig lige ning ninger t te",
    "s e",
    "boker bok fotter fot hender hand tenner tann gulrotter gulrot menn mann tenger tang",
)
POLISH = _language(
    "polish",
    "a aby albo byc ci co czy dla do gdy go i ich ile jak jako jego jej jest juz kazdy kiedy ktora ktore ktory "
    "ktorych lub ma na o od oraz po przez przy sa sie ta tak takze tam te ten tego to tu tych tym u w we "
    "wraz z za ze",
    "ale bez bardzo nie tylko",
    "a e i y o u ow om ami ach iem em ej ego emu ych ich ym im ymi imi owy owa owe ny na ne nych nego nie osc ka ki",
)
CZECH = _language(
    "czech",
    "a aby aj ale ani az by byl co coz do i ii ja jak jako je jeho jej jen ji jich jim jiz jsou k kde kdy kdyz ke "
    "ktera ktere ktereho kterou ktery kteri lze ma mezi mu my na nad nebo nez o od pak po pod podle pokud pri pro "
    "proto se si s svuj ta tak take tato te tedy tento teto tez ti tim to tohoto toto tu ty u v vam vas ve vsak vse "
    "z za zde ze",
    "bez jeste mnoho ne nejen velmi vice",
    "a e i o u y am ach ami em ech eho emu ych ich ym im ymi imi ou ov ova ovy ove ni na ne ny nych ek ky ka ku",
    plurals="stul stol nuz noz dum dom vuz voz dite deti",
)
LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        ENGLISH,
        GERMAN,
        FRENCH,
        DUTCH,
        SPANISH,
        ITALIAN,
        SWEDISH,
        DANISH,
        NORWEGIAN,
        POLISH,
        CZECH,
    )
}
# Languages that share many of their common words. These tell of the family, the others of the language.
NORTHERN = (SWEDISH, DANISH, NORWEGIAN)
_FAMILIES = (NORTHERN, (POLISH, CZECH))
# Common words of languages that are searched as English although they share many with a language above:
# Portuguese and Slovak; without "dos", which is Spanish, too, and "pro", which names of products have.
_ELSEWHERE = frozenset(
    "ao aos com em foi mais na nao nas nos ou pela pelo sao seu sua um uma voce "
    "alebo ako ked ktora ktore ktory pre pri sa su so vo".split()
)


def _telling_words() -> dict[Language, frozenset[str]]:
    """Return by language its common words, of two letters or more, that no other family has."""
    common = {language: language.common | language.others for language in LANGUAGES.values()}
    telling = {}
    for language, own in common.items():
        family = next((family for family in _FAMILIES if language in family), (language,))
        elsewhere = frozenset().union(*(common[each] for each in common if each not in family))
        telling[language] = frozenset(word for word in own - elsewhere if len(word) > 1)
    return telling


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
