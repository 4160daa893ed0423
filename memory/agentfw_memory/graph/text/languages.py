"""Finds out the language of words, well enough to stem them: by their script, or by the commonest words of a text.

    >>> language_of(["wo", "ist", "die", "katze"]), script_of("кошка"), language_of(["cat"])
    ('german', 'russian', 'english')

A language is named as Snowball names its stemmer; Vietnamese needs none. English is assumed if no other language
explains more of the words, so that a short question and a long text are stemmed alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain

PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean, as ranges of a regular expression's class."""

_SCRIPTS = (
    (0x0370, 0x03FF, "greek"),
    (0x0400, 0x052F, "russian"),
    (0x0530, 0x058F, "armenian"),
    (0x0600, 0x06FF, "arabic"),
    (0x0900, 0x097F, "hindi"),
    (0x0B80, 0x0BFF, "tamil"),
)

_LISTS = {
    "english": """
        a about after again all also am an and any are as at be because been before being but by can could did do does
        doing don down during each for from get had has have having he her here hers him his how i if in into is it its
        just let me more most my no nor not of off on once only or other our out over own please same shall she should
        so some such than that the their them then there these they this those through to too under until up us very
        was we were what when where which while who whom whose why will with would you your
    """,
    "german": """
        aber alle als also am an auch auf aus bei bin bis da das dass dein dem den der des die dies diese dieser doch du
        durch ein eine einem einen einer eines er es für gegen hat hatte haben ich ihr ihre im in ist kann kein keine
        man mehr mein meine mich mir mit nach nicht noch nur oder ob seine seit sich sie sind sein über um und uns
        unter vom von vor war waren warum was welche welchem welchen welcher welches wann wenn wer werden wie wird wo
        wurde wurden zu zum zur
    """,
    "french": """
        à au aux avec ce ces cette comme combien d dans de des du elle elles en est et était été être eu il ils j je l
        la le les leur leurs lui ma mais me même mes moi mon n ne nos notre nous on ont ou où par pas plus pour pourquoi
        qu quand que quel quelle quelles quels qui s sa sans se ses son sont sur ta te tes toi ton tu un une vos votre
        vous y
    """,
    "spanish": """
        a al con como cómo cuál cuáles cuando cuándo cuánto cuántos de del desde donde dónde el ella ellos en entre era
        es esta este está esto fue fueron ha han hasta hay la las le les lo los más me mi mis muy ni no nos o para pero
        por porque qué que quién se ser si sí sin sobre son su sus también te tiene tu un una uno y ya yo
    """,
    "italian": """
        a ad agli ai al alla alle anche che chi ci come con cosa da dal dalla dei del della delle dello di dove e è ed
        era erano gli ha hanno ho i il in io l la le lo loro ma mi mia mio ne nei nel nella non o per perché più qual
        quale quali quando quanti quanto questa questo se si sono su sua sul sulla suo ti tra tu un una uno
    """,
    "portuguese": """
        a ao aos as à às com como da das de dela dele do dos e é ela ele em entre era essa esse esta este eu foi foram
        há isso isto já lhe mais mas me meu minha muito na nas não no nos num numa o onde os ou para pela pelo por
        porque qual quais quando quantos quanto que quem se sem ser seu sua são só também tem um uma você
    """,
    "dutch": """
        aan als bij dan dat de deze die dit door een en er geen had heb hebben heeft het hij hoe hun ik in is je kan
        maar meer met mijn na naar niet nog nu of om ook op over te tot uit van veel voor waar waarom wanneer was wat
        we welke wel werd wie wordt worden ze zich zij zijn zo
    """,
    "swedish": """
        att av blev då de den deras dess det detta dig din där efter eller en er ett för från ha hade han har hon hur
        i inte jag kan man med men mig min mot mycket när och om på sin ska som till under upp ut var varför vem vi
        vid vad vilka vilken är
    """,
    "danish": """
        af at blev da de den der deres det dig din du efter eller en er et for fra ham han har havde hun hvad hvem hvor
        hvordan hvorfor i ikke jeg kan med meget men mig min mod når og om op på sig sin skal som til ud under var ved
        vi
    """,
    "romanian": """
        a acea aceasta această acest acesta aceste al ale am ar are asupra au avea ca care către cărei cărui câte câți
        ce cel cea cei cele cine cu cum când cât câtă da dar de decât deci deja despre din dintre doar după e ea ele el
        ei era este eu fi fie fost făcut în îi îl îmi între își la le li lor lui mai mi mult ne nici nu o pe pentru prin
        printre sa sale sau său se si și s-a spre sub sunt să te tot un unde una unei unele unor unui va
    """,
    "turkish": """
        ama ancak aynı bazı ben bile bir biri biz bu bunu bunun bunlar çok daha da de değil diğer diye dolayı en eden
        etti gibi göre hangi hangisi her hiç için içinde ile ilk ise kaç kadar kez ki kim kimdir kime kimin ki mı mi mu
        mü nasıl ne neden nedir nelerdir nerede nereden neresi neler nin o olan olarak oldu olduğu olduğunu olmuştur
        onlar onu onun sadece sen sonra şu şey tarafından tüm üzere üzerinde var ve veya vardır ya yer yıl yılında yok
        zaman
    """,
    "vietnamese": """
        ai bao bị bởi các cái cho chỉ có của cùng cũng còn do đã đang đâu đây để đến đi điều đó được gì hay hơn họ khi
        không là làm lại lúc mà mấy một nào này năm ngoài người như nhiều nhưng những ở ra rất sau sẽ số sự tại theo thì
        thế trên trong trước từ và vào vì với về
    """,
    "russian": """
        а бы был была были было в вам вас все вы где да для до его ее её если есть же за и из или им их к как какая
        какие какой когда кто ли меня мне мой моя мы на над не него нет ни но о об он она они от по под почему при про с
        сколько со так там то только ты у уже что чтобы это этот я
    """,
    "arabic": """
        ما من في على إلى الى عن مع هو هي هم هذا هذه ذلك التي الذي الذين أن ان إن كان كانت كم كيف لا لم لماذا متى أين هل
        أو ثم قد كل بين بعد قبل عند و أنا انا
    """,
    "hindi": """
        का के की को में से है हैं था थे थी और एक यह वह ये वे पर ने भी तो हो कि जो या क्या कौन कहाँ कहां कब कैसे क्यों
        कितने किस किसने लिए इस उस मैं मेरा मेरी मेरे मुझे नहीं साथ हुआ गया कर करने
    """,
    "greek": """
        ο η το οι τα του της των τον την στο στη στην στον στα και να είναι ήταν με σε από για που ποιος ποια ποιο πότε
        πού πώς τι δεν θα μου σου ένα μια ένας ως αυτό κατά πόσα πόσες πόσοι
    """,
}

_LETTERS = {
    **dict.fromkeys("äß", ("german",)),
    **dict.fromkeys("êëœ", ("french",)),
    **dict.fromkeys("ñ", ("spanish",)),
    **dict.fromkeys("ãõ", ("portuguese",)),
    **dict.fromkeys("å", ("swedish", "danish")),
    **dict.fromkeys("æø", ("danish",)),
    **dict.fromkeys("ăâîșțţ", ("romanian",)),
    **dict.fromkeys("ğışİ", ("turkish",)),
    **dict.fromkeys("đơư", ("vietnamese",)),
    **dict.fromkeys(map(chr, range(0x1EA0, 0x1EFA)), ("vietnamese",)),
}
"""Letters that few languages have. One in a text counts as much as a common word."""

_WORDS = {name: frozenset(words.split()) for name, words in _LISTS.items()}
_OTHER_SCRIPTS = frozenset(word for _, _, name in _SCRIPTS for word in _WORDS.get(name, ()))

STOP_WORDS: Mapping[str, frozenset[str]] = {name: words | _OTHER_SCRIPTS for name, words in _WORDS.items()}
"""By language: the words that are in every other sentence and tell no two texts apart."""

_LANGUAGES: dict[str, tuple[str, ...]] = {}
for _name, _words in _WORDS.items():
    for _word in _words - _OTHER_SCRIPTS:
        _LANGUAGES[_word] = (*_LANGUAGES.get(_word, ()), _name)


def language_of(words: Sequence[str]) -> str:
    """Return the language written in Latin letters that explains most of the words."""
    foreign = "".join(word for word in words if not word.isascii())
    known = [_LANGUAGES[word] for word in words if word in _LANGUAGES]
    found = Counter(chain.from_iterable(known + [_LETTERS[letter] for letter in foreign if letter in _LETTERS]))
    best = max(found.values(), default=0)
    # "Las Vegas" alone is no Spanish, but "¿Las cañas?" is.
    enough = 1 if foreign else 2
    return "english" if best < enough or found["english"] == best else found.most_common(1)[0][0]


@lru_cache(maxsize=200_000)
def script_of(word: str) -> str:
    """Return the language of a word in a script for which there is only one stemmer, or an empty text."""
    first = ord(word[0])
    return next((name for start, end, name in _SCRIPTS if start <= first <= end), "")
