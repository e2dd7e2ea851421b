"""How questions are worded in other languages than English.

A frame says in English what a question asks for; its patterns match how other languages say it. `{}` is
where the rest of the question goes. Patterns are joined over all languages: their words for questions
hardly ever mean something else in another one.
"""

from __future__ import annotations

# What may be asked for by name, in the languages in the order of `FRAMES`.
_EXCEPTION = (
    r"ausnahmen?|exceptions?|fehler|erreurs?|excepci[oó]n|errore?|eccezion[ei]|exce[cç](?:ção|ções)|erro"
    r"|uitzondering|fout|wyjątek|wyjątki|błąd|výjimk[au]|chyb[au]|undantag|fel|undtagelse|fejl|unntak|feil"
    r"|poikkeus|virhe|исключени[ея]|ошибк[аиуе]|виняток|помилк[аиу]"
)
_VERSION = r"version(?:en)?|versión|versione|versão|versie|wersj[iaęe]|verz[ei]|versio|верси[яию]|версі[яїю]"
_NOUNS = {
    "exception": _EXCEPTION,
    "version": _VERSION,
    "argument": r"parameter|argument(?:o|et)?|paramètre|par[aá]metro|argomento|schlüsselwort|mot-clé"
    r"|palabra clave|parola chiave|palavra-chave|trefwoord|sleutelwoord|parametr|argumentu?|nyckelord"
    r"|nøkkelord|nøgleord|parametri|argumentti|avainsana|параметр|аргумент|ключевой аргумент",
    "attribute": r"attribut(?:et)?|feld|champ|atributo|attributo|campo|attribuut|veld|atrybut|pole|atribut"
    r"|fält|felt|attribuutti|kenttä|атрибут|поле|поля",
    "option": r"(?:kommandozeilen)?(?:schalter|option)|opci[oó]n|opzione|opção|optie|opcj[aę]|przełącznik"
    r"|přepínač|volb[au]|flagga|valg|valitsin|опци[яю]|параметр командной строки|ключ|опці[яю]",
    "module": r"modul(?:et)?|module|m[oó]dulo|modulo|moduł|moduuli|модул[ья]",
    "function": r"(?:funktion|methode)(?:en)?|(?:fonction|méthode)|funci[oó]n|m[eé]todo|funzione|metodo"
    r"|função|functie|funkcj[aię]|metod[aęu]|funkc[ei]|metod(?:en)?|funktio|metodi|функци[яию]|метод",
    "class": r"(?:ober|unter)?klasse|classe|clase|klas|klas[aęy]|tříd[au]|klass(?:en)?|luokka|класс|клас",
    "type": r"typ(?:en)?|datentyp|type|tipo|typu|tyyppi|тип",
}
# The same in scripts without spaces.
_UNSPACED_NOUNS = {
    "exception": r"例外|エラー|异常|異常|错误|錯誤|예외|오류",
    "version": r"バージョン|版本|버전",
    "argument": r"引数|キーワード|パラメータ|参数|參數|关键字|매개변수|인자|인수",
    "attribute": r"属性|フィールド|字段|屬性|속성|필드",
    "option": r"オプション|スイッチ|选项|開關|开关|옵션",
    "module": r"モジュール|模块|模組|모듈",
    "function": r"関数|メソッド|函数|函數|方法|함수|메서드|메소드",
    "class": r"クラス|父类|类|클래스",
    "type": r"型|类型|타입|자료형",
}
_WHICH = (
    r"welche[nrsm]?|was für ein\w*|quel(?:le)?s?|qu[eé]|cu[aá]l(?:es)?|quale?|che|qual|quais|welke?|wat voor"
    r"|któr[yaemj]+|jak(?:i|a|ie|im|iej|ą|ého|á|é|ý|ou)|kter[ýáéoumj]+|vilke[nt]|hvilke[nt]?"
    r"|mi(?:kä|nkä|ssä|stä|llä)|как(?:ой|ая|ое|ую|ие|ом|им)|котор(?:ый|ая|ое)|як(?:ий|а|е|у|ій|ому)"
)

# From the most telling to the least: the first whose pattern matches is taken. Two patterns each: of words
# between spaces, and of the others.
FRAMES: tuple[tuple[str, str, str], ...] = (
    (
        "what happens if {}",
        r"was (?:passiert|geschieht)(?:,? (?:wenn|falls))?|(?:que se passe-t-il|qu'arrive-t-il)"
        r"(?: si| quand| lorsque)?|qu[eé] (?:pasa|pasará|ocurre|sucede)(?: si| cuando)?"
        r"|(?:che )?cosa (?:succede|accade)(?: se| quando)?|o que acontece(?: se| quando)?"
        r"|wat gebeurt er(?: als| wanneer)?|co się (?:stanie|dzieje)(?:,? (?:jeśli|jeżeli|gdy|kiedy))?"
        r"|co se (?:stane|děje)(?:,? (?:když|pokud|jestliže))?|vad händer(?: om| när)?"
        r"|hvad sker der(?:,? (?:hvis|når))?|hva skjer(?: hvis| når| om)?|mitä tapahtuu(?:,? (?:jos|kun))?"
        r"|что (?:произойд[её]т|происходит|будет)(?:,? (?:если|когда))?"
        r"|що (?:станеться|відбудеться|відбувається|буде)(?:,? (?:якщо|коли))?",
        r"[とば]?(?:どうな(?:ります|る)|何が起(?:きます|こります|きる|こる))(?:でしょう|の(?:です)?)?か?"
        r"|会(?:怎[样樣]|怎么[样樣]|如何|发生什么|發生什麼)|어떻게 (?:되나요|됩니까|돼요)|무슨 일이 \w+",
    ),
    (
        "since which version {}",
        rf"seit (?:wann|welcher version)|depuis (?:quand|quelle version)|desde (?:cu[aá]ndo|qu[eé] versi[oó]n)"
        rf"|da (?:quando|quale versione)|desde (?:quando|que versão)|sinds (?:wanneer|welke versie)"
        rf"|od (?:kiedy|której wersji|kdy|které verze)|sedan (?:när|vilken version)|siden (?:hvornår|når)"
        rf"|mistä (?:lähtien|versiosta)|с (?:каких пор|какой версии)|з (?:яких пір|якої версії)"
        rf"|(?:{_WHICH}) (?:{_VERSION})|(?:wann|quand|cu[aá]ndo|quando|wanneer|kiedy|kdy|när|hvornår|milloin"
        r"|когда|коли) (?:wurden?|ist|kam|a été|ont été|se (?:añadió|agregó|introdujo)|è stat[oa]|foi|werd|is"
        r"|(?:do)?dano|wprowadzono|pojawił\w*|byl[aoy]?|přibyl\w*|tillkom|blev|ble|lisättiin|добавил\w*"
        r"|появил\w*|додал\w*|з'явил\w*)(?!\w)",
        r"(?:いつ|どのバージョン|何バージョン)(?:から|で)?(?:です|入った|追加された)?(?:の(?:です)?)?か?"
        r"|从(?:什么时候|哪个版本)(?:开始|起)?|(?:在)?哪个版本(?:中)?|什么时候(?:加入|添加|引入|新增)(?:到)?"
        r"|(?:언제|어느 버전)(?:부터|에)?",
    ),
    (
        "which version {}",
        rf"(?:in|ab|mit|dans|à partir de|en|nella|na|w|i|v|в) (?:der |la |l'|die |den )?(?:{_VERSION})",
        r"バージョン(?:は|$)|的版本|버전은?$",
    ),
    (
        "how do I {}",
        r"^wie(?: (?:kann|könnte|soll|muss) (?:ich|man)|(?= \w+ (?:ich|man)\b))"
        r"|^comment(?: puis-je| peut-on| faire pour)?(?= )(?! s'appelle)|^cómo(?: puedo"
        r"| se puede)?(?! se llama)(?= )"
        r"|^como (?:posso|faço para|se)(?! chama)|^come (?:posso|si|faccio a)(?! chiama)|^hoe (?:kan"
        r"|moet) (?:ik|je)"
        r"|^jak (?!się nazywa|se jmenuje|długo|dlouho)(?=\w)|^hur (?:kan jag|gör jag för att|man)"
        r"|^hvordan(?: kan jeg| gør jeg| gjør jeg)?"
        r"|^(?:miten|kuinka)(?: voin| voi)?(?= )|^как(?: мне| можно)?(?= )(?!.*называется)|^як(?: мені"
        r"| можна)?(?= )(?!.*називається)",
        r"(?:には|するには)?どう(?:すれば|したら|やって|やれば)(?:いい|よい|良い)?(?:の)?(?:です)?か?"
        r"|どうしますか|(?:する)?方法$"
        r"|^(?:我)?(?:如何|怎[么样樣](?:才能)?)|어떻게 \w+(?:나요|까요)|방법$",
    ),
    (
        "what is {} called",
        r"wie heißt|comment s'appelle|cómo se llama|como se chama|come si chiama|hoe heet|jak (?:się nazywa"
        r"|nazywa się)"
        r"|jak se jmenuje|vad heter|hvad hedder|hva heter|mikä on .{1,40} nimi|(?:как|як) (?:называется"
        r"|називається)",
        r"(?:は)?(?:何という|どんな)名前(?:です)?か?|叫什么(?:名字)?|이름이 무엇\w*",
    ),
    (
        "how many {}",
        r"wie viele?|combien(?: de| d')?|cu[aá]nt[oa]s?|quant[aeio]s?|hoe ?veel|ile|kolik|hur många"
        r"|hvor mange|kuinka (?:monta|paljon)|сколько|скільки",
        r"いくつ(?:の)?|何(?:回|個|段|行|文字|秒|バイト)(?:まで)?(?:です)?か?|多少(?:个|次|行|秒)?"
        r"|几[个次行秒]|몇 ?(?:개|번|줄|초)?",
    ),
    (
        "why {}",
        r"warum|wieso|weshalb|pourquoi|por qu[eé]|perch[eé]|waarom|dlaczego|proč|varför|hvorfor|miksi"
        r"|почему|зачем|чому",
        r"なぜ|どうして|为什么|為什麼|왜",
    ),
    (
        "what is {} used for",
        r"wof[üu]r(?: (?:wird|werden)( .{1,80}) (?:verwendet|benutzt|gebraucht)| (?:ist|sind|verwendet man"
        r"|braucht man|nutzt man|dient))?|wozu(?: (?:ist|dient|braucht man))?"
        r"|[aà] quoi (?:sert|servent|ça sert)|para qu[eé](?: (?:sirven?|se usa|es))?"
        r"|a (?:che )?cosa serv(?:e|ono)"
        r"|per cosa si usa|para que serve|waarvoor(?: (?:dient|is|wordt))?|do czego(?: służy| jest)?"
        r"|k čemu(?: je| slouží)?|vad används|vad är( .{1,40}) till för|hvad bruges|hva brukes|mihin"
        r"|для чего( .{1,80})? используется|для чего(?: (?:нужен|нужна|нужно|служит|используется))?"
        r"|для чого(?: (?:потрібен|потрібна))?",
        r"(?:は)?何に使(?:う|います|われる|われます)(?:の(?:です)?)?か?|何のため(?:に|の)?(?:ある"
        r"|です)?(?:の(?:です)?)?か?"
        r"|(?:是)?(?:用来|用于|用來)做?(?:什么|什麼|何)|有什么用|무엇에 (?:쓰\w*|사용\w*)|용도",
    ),
    (
        "which exception is raised {}",
        rf"(?:{_WHICH}) (?:{_EXCEPTION})(?: (?:wird|werden|est|löst|se|viene|é|wordt|jest|je|возникает"
        rf"|вызывает))?",
        r"(?:どの|何の|どんな)(?:例外|エラー)|(?:例外|エラー)は(?:何|どれ)(?:です)?か?|(?:什么"
        r"|哪[个種种])(?:异常|错误|異常|錯誤)"
        r"|(?:어떤|무슨) (?:예외|오류)",
    ),
    (
        "default value of {}",
        r"standard ?wert(?:e|es)?|vorgabe(?:wert)?(?:e|es)?|voreinstellung|voreingestellte\w*|standardmäßig\w*"
        r"|(?:valeurs? )?par défaut|(?:valor(?:es)? )?(?:predeterminad[oa]s?|por (?:defecto|omisi[oó]n))"
        r"|(?:valore )?predefinit[oa]|(?:valore )?di default|(?:valor )?(?:padrão|predefinido)|standaard\w*"
        r"|domyśln\w+(?: wartość)?|(?:wartość )?domyślna|výchozí(?: hodnota)?|standardvärdet?"
        r"|standardværdi(?:en)?"
        r"|standardverdi(?:en)?|oletusarvo\w*|(?:значение |значения )?по умолчанию"
        r"|(?:значення )?за замовчуванням",
        r"(?:の)?(?:デフォルト|既定|規定|初期)(?:値)?(?:は(?:何|いくつ)(?:です)?か?)?|默认值?|預設值?"
        r"|缺省值?|기본 ?값(?:[은이])?(?: 무엇\w*)?",
    ),
    (
        "what does {} return",
        r"(?:was )?gibt( .{0,200}?)? zurück(?!\w)|was gibt|liefert|renvoie(?:nt)?|retourne(?:nt)?"
        r"|devuelve[n]?|retorna"
        r"|restituisc(?:e|ono)|devolve|(?:wat )?geeft( .{0,200}?)? terug|zwraca|vrací|returnerar?|returnerer"
        r"|palauttaa"
        r"|возвраща(?:ет|ют)|поверта(?:є|ють)",
        r"(?:何を|何が)?返(?:します|す|る|ります)か?|戻り値|返り値|返回(?:什么|什麼|值)?|반환(?:값|하\w*"
        r"|합\w*)?",
    ),
    *(
        (
            f"which {noun} {{}}",
            rf"(?:{_WHICH}) (?:{words})",
            rf"(?:どの|何の|どんな)(?:{_UNSPACED_NOUNS[noun]})|(?:{_UNSPACED_NOUNS[noun]})は(?:何"
            rf"|どれ)(?:です)?か?"
            rf"|(?:什么|哪[个一種种]+)(?:\w{{0,4}}?)(?:{_UNSPACED_NOUNS[noun]})|(?:어떤|무슨"
            rf"|어느) (?:{_UNSPACED_NOUNS[noun]})"
            + (rf"|(?:{_UNSPACED_NOUNS[noun]})$" if noun != "type" else ""),
        )
        for noun, words in _NOUNS.items()
        if noun not in ("exception", "version")
    ),
    (
        "when should I {}",
        r"wann (?:sollte|soll|löst|nimmt|verwendet|benutzt)?(?: man| ich)?|quand (?:faut-il|dois-je)?"
        r"|cu[aá]ndo (?:debo|se debe|hay que)?"
        r"|quando (?:devo|si deve|usare|usar)|wanneer(?: moet ik)?|kiedy|kdy|när (?:ska|bör) (?:jag|man)"
        r"|hvornår"
        r"|når (?:skal|bør) (?:jeg|man)|milloin|когда|коли",
        r"いつ|什么时候(?:应该|该)?|何时|언제",
    ),
    (
        "can I {}",
        r"(?:kann|darf|muss) (?:ich|man)|puis-je|peut-on|¿?(?:puedo|se puede)|posso|si può|pode-se|kan ik"
        r"|mag ik"
        r"|czy (?:mogę|można)|(?:mohu|lze)|(?:kan|får) (?:jag|man|jeg)|voi(?:nko|ko)|можно ли|могу ли|чи можна",
        r"(?:でき|使え|可能)(?:ます|です)か|可以.*吗$|能.*吗$|[吗嗎]$|할 수 있나요",
    ),
    (
        "does {}",
        r"^(?:ist|sind|gibt es|können)(?= )|^est-ce qu(?:e |')|^(?:¿es|¿son|¿hay)(?= )|^(?:esiste|existe)(?= )"
        r"|^czy|^jsou(?= )|^är(?= )|^onko|^чи",
        r"(?:ます|です|ません)か$",
    ),
    (
        "what is {}",
        r"was (?:ist|sind|bedeutet)|qu'est-ce que?(?: c'est)?|qu[eé] (?:es|son|significa)|(?:che )?cos'è"
        r"|o que (?:é|significa)|wat (?:is|betekent)|co (?:to jest|oznacza|je to|je|znamená)|vad (?:är|betyder)"
        r"|hvad (?:er|betyder)|hva (?:er|betyr)|mi(?:kä|tä) (?:on|tarkoittaa)|что (?:такое|значит|означает)"
        r"|що (?:таке|означає)",
        r"(?:とは)?何(?:です|なの)?か$|とは(?:何)?$|(?:是)?什么(?:意思)?$|是什么|무엇(?:인가요|입니까)?",
    ),
)
