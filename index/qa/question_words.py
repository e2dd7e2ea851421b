"""How questions are worded in other languages than English.

A frame says in English what a question asks for; `{}` is where the rest of the question goes. Each has a
table of how it is worded, by languages. The wordings are joined to one pattern over all languages: their
words for questions hardly ever mean something else in another one. What a group captures stays in the
rest of the question, as where a verb is around it: "was gibt ... zurück".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# These have no spaces between words, so that a wording may begin and end anywhere.
_UNSPACED = ("ja", "zh", "ko")

# The words for "which", "version" and "exception", which stand beside each other in several frames.
_WHICH = (
    r"welche[nrsm]?|was für ein\w*|quel(?:le)?s?|qu[eé]|cu[aá]l(?:es)?|quale?|che|qual|quais|welke?|wat voor"
    r"|któr[yaemj]+|jak(?:i|a|ie|im|iej|ą|ého|á|é|ý|ou)|kter[ýáéoumj]+|vilke[nt]|hvilke[nt]?"
    r"|mi(?:kä|nkä|ssä|stä|llä)|как(?:ой|ая|ое|ую|ие|ом|им)|котор(?:ый|ая|ое)|як(?:ий|а|е|у|ій|ому)"
)
_VERSION = r"version(?:en)?|versión|versione|versão|versie|wersj[iaęe]|verz[ei]|versio|верси[яию]|версі[яїю]"
_EXCEPTION = (
    r"ausnahmen?|exceptions?|fehler|erreurs?|excepci[oó]n|errore?|eccezion[ei]|exce[cç](?:ção|ções)|erro"
    r"|uitzondering|fout|wyjątek|wyjątki|błąd|výjimk[au]|chyb[au]|undantag|fel|undtagelse|fejl|unntak|feil"
    r"|poikkeus|virhe|исключени[ея]|ошибк[аиуе]|виняток|помилк[аиу]"
)

# What else may be asked for by "which": its words between spaces, and those of scripts without.
_NOUNS = {
    "argument": (
        r"parameter|argument(?:o|et)?|paramètre|par[aá]metro|argomento|schlüsselwort|mot-clé"
        r"|palabra clave|parola chiave|palavra-chave|trefwoord|sleutelwoord|parametr|argumentu?|nyckelord"
        r"|nøkkelord|nøgleord|parametri|argumentti|avainsana|параметр|аргумент|ключевой аргумент",
        r"引数|キーワード|パラメータ|参数|參數|关键字|매개변수|인자|인수",
    ),
    "attribute": (
        r"attribut(?:et)?|feld|champ|atributo|attributo|campo|attribuut|veld|atrybut|pole|atribut"
        r"|fält|felt|attribuutti|kenttä|атрибут|поле|поля",
        r"属性|フィールド|字段|屬性|속성|필드",
    ),
    "option": (
        r"(?:kommandozeilen)?(?:schalter|option)|opci[oó]n|opzione|opção|optie|opcj[aę]|przełącznik"
        r"|přepínač|volb[au]|flagga|valg|valitsin|опци[яю]|параметр командной строки|ключ|опці[яю]",
        r"オプション|スイッチ|选项|開關|开关|옵션",
    ),
    "module": (
        r"modul(?:et)?|module|m[oó]dulo|modulo|moduł|moduuli|модул[ья]",
        r"モジュール|模块|模組|모듈",
    ),
    "function": (
        r"(?:funktion|methode)(?:en)?|(?:fonction|méthode)|funci[oó]n|m[eé]todo|funzione|metodo"
        r"|função|functie|funkcj[aię]|metod[aęu]|funkc[ei]|metod(?:en)?|funktio|metodi|функци[яию]|метод",
        r"関数|メソッド|函数|函數|方法|함수|메서드|메소드",
    ),
    "class": (
        r"(?:ober|unter)?klasse|classe|clase|klas|klas[aęy]|tříd[au]|klass(?:en)?|luokka|класс|клас",
        r"クラス|父类|类|클래스",
    ),
    "type": (
        r"typ(?:en)?|datentyp|type|tipo|typu|tyyppi|тип",
        r"型|类型|타입|자료형",
    ),
}


def _which(noun: str) -> tuple[str, Mapping[str, str]]:
    """Return the frame of questions that ask which one of a kind it is, with its wordings."""
    spaced, unspaced = _NOUNS[noun]
    wordings = {
        "any": rf"(?:{_WHICH}) (?:{spaced})",
        "ja": rf"(?:どの|何の|どんな)(?:{unspaced})|(?:{unspaced})は(?:何|どれ)(?:です)?か?",
        "zh": rf"(?:什么|哪[个一種种]+)(?:\w{{0,4}}?)(?:{unspaced})",
        "ko": rf"(?:어떤|무슨|어느) (?:{unspaced})",
    }
    # As in "... 関数"; a type is also what other questions end with.
    if noun != "type":
        wordings["ko"] += rf"|(?:{unspaced})$"
    return f"which {noun} {{}}", wordings


# From the most telling to the least: a question has the first frame with a wording that is in it.
_WORDINGS: tuple[tuple[str, Mapping[str, str]], ...] = (
    (
        "what happens if {}",
        {
            "de": r"was (?:passiert|geschieht)(?:,? (?:wenn|falls))?",
            "fr": r"(?:que se passe-t-il|qu'arrive-t-il)(?: si| quand| lorsque)?",
            "es": r"qu[eé] (?:pasa|pasará|ocurre|sucede)(?: si| cuando)?",
            "it": r"(?:che )?cosa (?:succede|accade)(?: se| quando)?",
            "pt": r"o que acontece(?: se| quando)?",
            "nl": r"wat gebeurt er(?: als| wanneer)?",
            "pl": r"co się (?:stanie|dzieje)(?:,? (?:jeśli|jeżeli|gdy|kiedy))?",
            "cs": r"co se (?:stane|děje)(?:,? (?:když|pokud|jestliže))?",
            "sv": r"vad händer(?: om| när)?",
            "da": r"hvad sker der(?:,? (?:hvis|når))?",
            "nb": r"hva skjer(?: hvis| når| om)?",
            "fi": r"mitä tapahtuu(?:,? (?:jos|kun))?",
            "ru": r"что (?:произойд[её]т|происходит|будет)(?:,? (?:если|когда))?",
            "uk": r"що (?:станеться|відбудеться|відбувається|буде)(?:,? (?:якщо|коли))?",
            "ja": r"[とば]?(?:どうな(?:ります|る)|何が起(?:きます|こります|きる|こる))"
            r"(?:でしょう|の(?:です)?)?か?",
            "zh": r"会(?:怎[样樣]|怎么[样樣]|如何|发生什么|發生什麼)",
            "ko": r"어떻게 (?:되나요|됩니까|돼요)|무슨 일이 \w+",
        },
    ),
    (
        "since which version {}",
        {
            "de": r"seit (?:wann|welcher version)",
            "fr": r"depuis (?:quand|quelle version)",
            "es": r"desde (?:cu[aá]ndo|qu[eé] versi[oó]n)",
            "it": r"da (?:quando|quale versione)",
            "pt": r"desde (?:quando|que versão)",
            "nl": r"sinds (?:wanneer|welke versie)",
            "pl cs": r"od (?:kiedy|której wersji|kdy|které verze)",
            "sv": r"sedan (?:när|vilken version)",
            "da nb": r"siden (?:hvornår|når)",
            "fi": r"mistä (?:lähtien|versiosta)",
            "ru": r"с (?:каких пор|какой версии)",
            "uk": r"з (?:яких пір|якої версії)",
            # "In which version", and "when was ... added".
            "any": rf"(?:{_WHICH}) (?:{_VERSION})|(?:wann|quand|cu[aá]ndo|quando|wanneer|kiedy|kdy|när|hvornår"
            r"|milloin|когда|коли) (?:wurden?|ist|kam|a été|ont été|se (?:añadió|agregó|introdujo)|è stat[oa]"
            r"|foi|werd|is|(?:do)?dano|wprowadzono|pojawił\w*|byl[aoy]?|přibyl\w*|tillkom|blev|ble|lisättiin"
            r"|добавил\w*|появил\w*|додал\w*|з'явил\w*)(?!\w)",
            "ja": r"(?:いつ|どのバージョン|何バージョン)(?:から|で)?"
            r"(?:です|入った|追加された)?(?:の(?:です)?)?か?",
            "zh": r"从(?:什么时候|哪个版本)(?:开始|起)?|(?:在)?哪个版本(?:中)?"
            r"|什么时候(?:加入|添加|引入|新增)(?:到)?",
            "ko": r"(?:언제|어느 버전)(?:부터|에)?",
        },
    ),
    (
        "which version {}",
        {
            "any": rf"(?:in|ab|mit|dans|à partir de|en|nella|na|w|i|v|в) (?:der |la |l'|die |den )?(?:{_VERSION})",
            "ja": r"バージョン(?:は|$)",
            "zh": r"的版本",
            "ko": r"버전은?$",
        },
    ),
    (
        "how do I {}",
        {
            "de": r"^wie(?: (?:kann|könnte|soll|muss) (?:ich|man)|(?= \w+ (?:ich|man)\b))",
            "fr": r"^comment(?: puis-je| peut-on| faire pour)?(?= )(?! s'appelle)",
            "es": r"^cómo(?: puedo| se puede)?(?! se llama)(?= )",
            "pt": r"^como (?:posso|faço para|se)(?! chama)",
            "it": r"^come (?:posso|si|faccio a)(?! chiama)",
            "nl": r"^hoe (?:kan|moet) (?:ik|je)",
            "pl cs": r"^jak (?!się nazywa|se jmenuje|długo|dlouho)(?=\w)",
            "sv": r"^hur (?:kan jag|gör jag för att|man)",
            "da nb": r"^hvordan(?: kan jeg| gør jeg| gjør jeg)?",
            "fi": r"^(?:miten|kuinka)(?: voin| voi)?(?= )",
            "ru": r"^как(?: мне| можно)?(?= )(?!.*называется)",
            "uk": r"^як(?: мені| можна)?(?= )(?!.*називається)",
            "ja": r"(?:には|するには)?どう(?:すれば|したら|やって|やれば)(?:いい|よい|良い)?(?:の)?(?:です)?か?"
            r"|どうしますか|(?:する)?方法$",
            "zh": r"^(?:我)?(?:如何|怎[么样樣](?:才能)?)",
            "ko": r"어떻게 \w+(?:나요|까요)|방법$",
        },
    ),
    (
        "what is {} called",
        {
            "de": r"wie heißt",
            "fr": r"comment s'appelle",
            "es": r"cómo se llama",
            "pt": r"como se chama",
            "it": r"come si chiama",
            "nl": r"hoe heet",
            "pl": r"jak (?:się nazywa|nazywa się)",
            "cs": r"jak se jmenuje",
            "sv": r"vad heter",
            "da": r"hvad hedder",
            "nb": r"hva heter",
            "fi": r"mikä on .{1,40} nimi",
            "ru uk": r"(?:как|як) (?:называется|називається)",
            "ja": r"(?:は)?(?:何という|どんな)名前(?:です)?か?",
            "zh": r"叫什么(?:名字)?",
            "ko": r"이름이 무엇\w*",
        },
    ),
    (
        "how many {}",
        {
            "de": r"wie viele?",
            "fr": r"combien(?: de| d')?",
            "es": r"cu[aá]nt[oa]s?",
            "it pt": r"quant[aeio]s?",
            "nl": r"hoe ?veel",
            "pl": r"ile",
            "cs": r"kolik",
            "sv": r"hur många",
            "da nb": r"hvor mange",
            "fi": r"kuinka (?:monta|paljon)",
            "ru": r"сколько",
            "uk": r"скільки",
            "ja": r"いくつ(?:の)?|何(?:回|個|段|行|文字|秒|バイト)(?:まで)?(?:です)?か?",
            "zh": r"多少(?:个|次|行|秒)?|几[个次行秒]",
            "ko": r"몇 ?(?:개|번|줄|초)?",
        },
    ),
    (
        "why {}",
        {
            "de": r"warum|wieso|weshalb",
            "fr": r"pourquoi",
            "es": r"por qu[eé]",
            "it": r"perch[eé]",
            "nl": r"waarom",
            "pl": r"dlaczego",
            "cs": r"proč",
            "sv": r"varför",
            "da nb": r"hvorfor",
            "fi": r"miksi",
            "ru": r"почему|зачем",
            "uk": r"чому",
            "ja": r"なぜ|どうして",
            "zh": r"为什么|為什麼",
            "ko": r"왜",
        },
    ),
    (
        "what is {} used for",
        {
            "de": r"wof[üu]r(?: (?:wird|werden)( .{1,80}) (?:verwendet|benutzt|gebraucht)"
            r"| (?:ist|sind|verwendet man|braucht man|nutzt man|dient))?|wozu(?: (?:ist|dient|braucht man))?",
            "fr": r"[aà] quoi (?:sert|servent|ça sert)",
            "es": r"para qu[eé](?: (?:sirven?|se usa|es))?",
            "it": r"a (?:che )?cosa serv(?:e|ono)|per cosa si usa",
            "pt": r"para que serve",
            "nl": r"waarvoor(?: (?:dient|is|wordt))?",
            "pl": r"do czego(?: służy| jest)?",
            "cs": r"k čemu(?: je| slouží)?",
            "sv": r"vad används|vad är( .{1,40}) till för",
            "da": r"hvad bruges",
            "nb": r"hva brukes",
            "fi": r"mihin",
            "ru": r"для чего( .{1,80})? используется"
            r"|для чего(?: (?:нужен|нужна|нужно|служит|используется))?",
            "uk": r"для чого(?: (?:потрібен|потрібна))?",
            "ja": r"(?:は)?何に使(?:う|います|われる|われます)(?:の(?:です)?)?か?"
            r"|何のため(?:に|の)?(?:ある|です)?(?:の(?:です)?)?か?",
            "zh": r"(?:是)?(?:用来|用于|用來)做?(?:什么|什麼|何)|有什么用",
            "ko": r"무엇에 (?:쓰\w*|사용\w*)|용도",
        },
    ),
    (
        "which exception is raised {}",
        {
            "any": rf"(?:{_WHICH}) (?:{_EXCEPTION})"
            r"(?: (?:wird|werden|est|löst|se|viene|é|wordt|jest|je|возникает|вызывает))?",
            "ja": r"(?:どの|何の|どんな)(?:例外|エラー)|(?:例外|エラー)は(?:何|どれ)(?:です)?か?",
            "zh": r"(?:什么|哪[个種种])(?:异常|错误|異常|錯誤)",
            "ko": r"(?:어떤|무슨) (?:예외|오류)",
        },
    ),
    (
        "default value of {}",
        {
            "de": r"standard ?wert(?:e|es)?|vorgabe(?:wert)?(?:e|es)?|voreinstellung|voreingestellte\w*"
            r"|standardmäßig\w*",
            "fr": r"(?:valeurs? )?par défaut",
            "es": r"(?:valor(?:es)? )?(?:predeterminad[oa]s?|por (?:defecto|omisi[oó]n))",
            "it": r"(?:valore )?predefinit[oa]|(?:valore )?di default",
            "pt": r"(?:valor )?(?:padrão|predefinido)",
            "nl": r"standaard\w*",
            "pl": r"domyśln\w+(?: wartość)?|(?:wartość )?domyślna",
            "cs": r"výchozí(?: hodnota)?",
            "sv": r"standardvärdet?",
            "da": r"standardværdi(?:en)?",
            "nb": r"standardverdi(?:en)?",
            "fi": r"oletusarvo\w*",
            "ru": r"(?:значение |значения )?по умолчанию",
            "uk": r"(?:значення )?за замовчуванням",
            "ja": r"(?:の)?(?:デフォルト|既定|規定|初期)(?:値)?(?:は(?:何|いくつ)(?:です)?か?)?",
            "zh": r"默认值?|預設值?|缺省值?",
            "ko": r"기본 ?값(?:[은이])?(?: 무엇\w*)?",
        },
    ),
    (
        "what does {} return",
        {
            "de": r"(?:was )?gibt( .{0,200}?)? zurück(?!\w)|was gibt|liefert",
            "fr": r"renvoie(?:nt)?|retourne(?:nt)?",
            "es": r"devuelve[n]?|retorna",
            "it": r"restituisc(?:e|ono)",
            "pt": r"devolve",
            "nl": r"(?:wat )?geeft( .{0,200}?)? terug",
            "pl": r"zwraca",
            "cs": r"vrací",
            "sv": r"returnerar?",
            "da nb": r"returnerer",
            "fi": r"palauttaa",
            "ru": r"возвраща(?:ет|ют)",
            "uk": r"поверта(?:є|ють)",
            "ja": r"(?:何を|何が)?返(?:します|す|る|ります)か?|戻り値|返り値",
            "zh": r"返回(?:什么|什麼|值)?",
            "ko": r"반환(?:값|하\w*|합\w*)?",
        },
    ),
    *map(_which, _NOUNS),
    (
        "when should I {}",
        {
            "de": r"wann (?:sollte|soll|löst|nimmt|verwendet|benutzt)?(?: man| ich)?",
            "fr": r"quand (?:faut-il|dois-je)?",
            "es": r"cu[aá]ndo (?:debo|se debe|hay que)?",
            "it pt": r"quando (?:devo|si deve|usare|usar)",
            "nl": r"wanneer(?: moet ik)?",
            "pl": r"kiedy",
            "cs": r"kdy",
            "sv": r"när (?:ska|bör) (?:jag|man)",
            "da": r"hvornår",
            "nb": r"når (?:skal|bør) (?:jeg|man)",
            "fi": r"milloin",
            "ru": r"когда",
            "uk": r"коли",
            "ja": r"いつ",
            "zh": r"什么时候(?:应该|该)?|何时",
            "ko": r"언제",
        },
    ),
    (
        "can I {}",
        {
            "de": r"(?:kann|darf|muss) (?:ich|man)",
            "fr": r"puis-je|peut-on",
            "es": r"¿?(?:puedo|se puede)",
            "pt it": r"posso|si può|pode-se",
            "nl": r"kan ik|mag ik",
            "pl": r"czy (?:mogę|można)",
            "cs": r"(?:mohu|lze)",
            "sv da nb": r"(?:kan|får) (?:jag|man|jeg)",
            "fi": r"voi(?:nko|ko)",
            "ru": r"можно ли|могу ли",
            "uk": r"чи можна",
            "ja": r"(?:でき|使え|可能)(?:ます|です)か",
            "zh": r"可以.*吗$|能.*吗$|[吗嗎]$",
            "ko": r"할 수 있나요",
        },
    ),
    (
        "does {}",
        {
            "de": r"^(?:ist|sind|gibt es|können)(?= )",
            "fr": r"^est-ce qu(?:e |')",
            "es": r"^(?:¿es|¿son|¿hay)(?= )",
            "it pt": r"^(?:esiste|existe)(?= )",
            "pl": r"^czy",
            "cs": r"^jsou(?= )",
            "sv": r"^är(?= )",
            "fi": r"^onko",
            "uk": r"^чи",
            "ja": r"(?:ます|です|ません)か$",
        },
    ),
    (
        "what is {}",
        {
            "de": r"was (?:ist|sind|bedeutet)",
            "fr": r"qu'est-ce que?(?: c'est)?",
            "es": r"qu[eé] (?:es|son|significa)",
            "it": r"(?:che )?cos'è",
            "pt": r"o que (?:é|significa)",
            "nl": r"wat (?:is|betekent)",
            "pl cs": r"co (?:to jest|oznacza|je to|je|znamená)",
            "sv": r"vad (?:är|betyder)",
            "da": r"hvad (?:er|betyder)",
            "nb": r"hva (?:er|betyr)",
            "fi": r"mi(?:kä|tä) (?:on|tarkoittaa)",
            "ru": r"что (?:такое|значит|означает)",
            "uk": r"що (?:таке|означає)",
            "ja": r"(?:とは)?何(?:です|なの)?か$|とは(?:何)?$",
            "zh": r"(?:是)?什么(?:意思)?$|是什么",
            "ko": r"무엇(?:인가요|입니까)?",
        },
    ),
)


def _joined(wordings: Mapping[str, str]) -> re.Pattern[str]:
    """Return the pattern of a frame: whole words, or any part of a text in scripts without spaces."""
    spaced = "|".join(words for codes, words in wordings.items() if codes not in _UNSPACED)
    unspaced = "|".join(wordings[code] for code in _UNSPACED if code in wordings)
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{unspaced}", re.IGNORECASE)


FRAMES = tuple((frame, _joined(wordings)) for frame, wordings in _WORDINGS)
