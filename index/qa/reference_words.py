"""How references in other languages than English state defaults and what is returned.

German, French, Italian, Spanish, Portuguese, Dutch, Polish, Russian, Japanese and Chinese.
"""

from __future__ import annotations

import re

# What a sentence about a default has, and one about what is returned.
DEFAULT_WORDS = (
    r"\bstandardwert|\bvorgabe|\bvoreinstell|\bstandardmäßig|\bpar défaut\b|\bpredefinit|\bpor (?:defecto"
    r"|omisi[oó]n)"
    r"|\bpredeterminad|\bpredefinid|\bpadrão|\bstandaard|\bdomyśln|\bпо умолчанию|デフォルト|既定|規定値"
    r"|初期値|省略|默认|缺省"
)
RETURN_WORDS = (
    r"\bzurück\b|\bzurückgegeben|\brückgabe|\bliefert\b|\brenvoi|\bretourn|\brestitui|\bdevuel|\bdevolv"
    r"|\bretorn"
    r"|\bgeeft\b|\bzwraca|\bвозвращ|返(?:す|し|さ|り|値)|返回"
)

_DEFAULT = (
    r"(?:standardwerte?|vorgabe(?:wert)?|voreinstellung|par défaut|predefinit[oa]|por (?:defecto|omisi[oó]n)"
    r"|predeterminad[oa]|predefinid[oa]|padrão|standaard(?:waarde)?|domyśln(?:ie|a|ą)|по умолчанию)"
)
_IS = r"(?: ?[:=] ?| (?:ist|sind|lautet|beträgt|est|sont|vaut|à|è|es|son|é|is|jest|to|равно|[—–-])(?: de)? | )"
_END = r"(?=\.?\s*$|\.\s|[,;:()])"
DEFAULTS = tuple(
    ("stated", re.compile(wording, re.IGNORECASE | re.MULTILINE))
    for wording in (
        rf"\b{_DEFAULT}{_IS}(?P<value>[^\s,;()]{{1,80}})",
        rf"\b{_DEFAULT}{_IS}(?P<value>[^\n,;:()]{{1,80}}?){_END}",
        rf"\((?P<value>[^\n()]{{1,40}}?),? {_DEFAULT}\)",
        r"(?:デフォルト|既定|規定|初期)(?:値|の[^\s、。は()]{1,12})?(?:では|は|[:：]| )\s*"
        r"(?P<value>[^\s、。()][^、。()\n]{0,60}?)(?= ?(?:です|である|。|、|\)|$))",
        r"(?:默认|缺省)值?(?:是|为|[:：])\s*(?P<value>[^\s，。；()（）]{1,40})",
    )
)

_CALLS = (
    r"(?:gibt|geben|liefert|liefern|renvoie|renvoient|retourne|retournent|restituisce|restituiscono|devuelven?"
    r"|retornam?|devolvem?|zwraca|zwracają|возвращает|возвращают)"
)
RETURNED = tuple(
    ("returned", re.compile(wording, re.IGNORECASE | re.MULTILINE))
    for wording in (
        # German has its verb around what is returned.
        r"\b(?:gibt|geben)(?: die Funktion \S{1,40})? (?P<value>(?!die Funktion)[^\n.]{1,160}?) zurück\b",
        rf"\b{_CALLS} (?P<value>[^\n.;]{{1,160}}?)"
        r"(?=,? (?:zurück|falls|wenn|oder|si|s'il|quand|lorsque|ou|se|cuando|gdy|jeśli|если|или)\b|[.;]|\s*$)",
        r"(?:^|[はば、。]|場合(?:に)?|とき(?:に)?) ?(?P<value>[^\s、。はば][^、。はば\n]{0,80}?) ?(?:を"
        r"|が)返(?:す|し|さ|る|り)",
        r"返回(?P<value>[^\s，。；]{1,60})",
    )
)
