"""Decides by rules whether a sentence says something lasting of the person who wrote it.

    >>> [lasting(one) for one in ("I'm allergic to nuts", "Never suggest black tea", "Antworte immer auf Deutsch")]
    [True, True, True]
    >>> [lasting(one) for one in ("What's for lunch?", "If I were vegan", "She likes tea", "I see, thanks")]
    [False, False, False, False]

Lasting is what people say of themselves in the first person, and what they ask for once and for all. Questions,
hypotheses, small talk, tasks for now and what is said of others are not. The words are those of English, German,
French, Spanish, Italian, Portuguese, Russian, Arabic, Chinese, Japanese, Korean and Hindi. Japanese and Korean leave
out the first person, so a statement that names nobody else counts as theirs.
"""

from __future__ import annotations

import re

__all__ = ["lasting"]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_QUESTION = _any(
    r"[?？؟]\s*$",
    r"(?:か|かな)。?\s*$",
    r"^(?:what|who|where|when|why|how|which|whose|is|are|do|does|did)\b(?! not)",
    r"^(?:wer|wie|warum|wann|welche\w*|¿|क्या)",
)
_POLITE_REQUEST = _any(r"^(?:can|could|would|will) you (?:please )?(?:always|never|stop|call me|from now on)\b")
_HYPOTHESIS = _any(
    r"^(?:and |but |so )?(?:what )?if\b|\bif i (?:were|was|had|lived|moved)\b|\b(?:suppose|imagine|pretend|"
    r"assume|assuming)\b",
    r"\blet's say\b|\bi wish\b|\bsay i\b|\bhypothetically\b|\bin case i\b",
    r"^(?:und )?(?:wenn|falls)\b|\bangenommen\b|\bstell dir vor\b|\bnehmen wir an\b",
    r"^(?:et |y |e )?(?:si|se)\s|\b(?:imagin|immagin|supp?on|suppos|supón|admett)\w*",
    r"\bесли\b|\bпредстав\w*|\bдопустим\b|\bпредположим\b",
    r"^لو |ماذا لو|تخيل|افترض|لنفترض|^إذا ",
    "如果|要是|假设|假如|想象|もし|仮定|仮に|としたら|만약|만일|가정|상상|अगर|यदि|मान लो|मान लीजिए|कल्पना",
)
_SMALL_TALK = _any(
    r"\bi(?:'m| am)? (?:see|think so|guess|suppose so|agree|understand|hope so|mean|don'?t know|do not know|"
    r"don'?t mind|"
    r"got it|appreciate|fine|good|ok(?:ay)?|sorry|back|here|(?:just )?kidding|joking|glad|happy to|done|"
    r"ready|off|sure|"
    r"not sure|afraid|on my way|tired|bored|with you|all set|love (?:it|that|this)|like (?:it|that|this))\b",
    r"\b(?:thank|thanks|thx|lol|haha|hello|good (?:morning|night|evening)|see you|bye|congrat\w*)\b",
    r"\b(?:danke|verstehe|weiß (?:ich )?nicht|mir geht|alles klar|guten (?:morgen|tag|abend)|schönes)\b",
    r"\b(?:merci|je ne sais pas|je comprends|d'accord|bonjour|bonsoir|ça va)\b",
    r"\b(?:gracias|no sé|entiendo|grazie|non lo so|capisco|obrigad\w|não sei|entendo|sto bene|estoy bien|tudo bem)\b",
    r"\b(?:спасибо|не знаю|понимаю|понял\w?|привет)\b|شكرا|لا أعرف|مرحبا|تصبح على|صباح الخير",
    "谢谢|我不知道|我明白|我知道了|你好|晚安|早上好|ありがと|知りません|わかりました|了解|こんにちは|"
    "おはよう|おやすみ|すみません|助かり",
    "元気|ですね|안녕|고마|감사|잘 자|좋은 아침|미안|죄송|알겠|모르겠|धन्यवाद|नमस्ते|पता नहीं|समझ गया|शुभ",
)
_OTHERS = _any(
    r"^(?:my|our) (?:\w+ )?(?:sister|brother|mother|mom|mum|father|dad|parents?|wife|husband|son|daughter|"
    r"friends?|boss|"
    r"colleagues?|neighbou?rs?|cousin|aunt|uncle|grand\w+|girlfriend|boyfriend|partner|room-?mates?|guests?|"
    r"manager|teacher|"
    r"clients?|landlord)\b(?!(?: and|'s and) i\b)",
    r"^(?:he|she|they|it|you|that|this|there|everyone|everybody|people|someone|some|many|most|lots)\b",
    r"^(?:er|sie|es|man|viele|mein\w* (?:schwester|bruder|mutter|vater|eltern|freund\w*|chef\w*|kolleg\w*|"
    r"nachbar\w*|frau|"
    r"mann|sohn|tochter|oma|opa))\b",
    r"^(?:il|elle|ils|elles|on|(?:mon|ma|mes) (?:sœur|soeur|frère|mère|père|parents|femme|mari|fils|fille|"
    r"amie?s?|chef\w*|"
    r"collègues?|voisine?s?))\b",
    r"^(?:él|ella|ellos|ellas|lui|lei|loro|ele|ela|eles|elas)\b",
    r"^(?:mis?|mi[oae]|miei|mie|il mio|la mia|os? meus?|as? minhas?|meus?|minhas?) (?:herman\w*|madre|padre|"
    r"mamá|papá|espos\w*|"
    r"hij\w*|amig\w*|jefe?a?|colega\w*|vecin\w*|sorella|fratello|moglie|marito|figli\w*|amic\w*|capo|collega|"
    r"vicin\w*|irmã\w*|"
    r"mãe|pai|filh\w*|chefe|vizinh\w*|marido)\b",
    r"^(?:он|она|они|мо[йяи] (?:сестра|брат|мать|мама|отец|папа|родители|жена|муж|сын|дочь|друг|подруга|"
    r"начальни\w*|коллег\w*))\b",
    r"^(?:هو|هي|هم|أخي|أختي|أمي|أبي|صديقي|مديري|زوجتي|زوجي)\b",
    "^(?:他|她|他们|我的?(?:姐|哥|弟|妹|妈|爸|母|父|老板|朋友|同事|妻子|丈夫|太太|先生|老师))",
    "^(?:彼|彼女|彼ら|(?:私の|うちの)?(?:妹|姉|兄|弟|母|父|妻|夫|友達|友人|上司|同僚|息子|娘)|"
    "[^、。]{1,6}さん)(?:は|が|も)",
    "^(?:그는|그녀|그가|(?:제 |우리 |내 )?(?:여동생|남동생|동생|형|누나|오빠|언니|엄마|아빠|어머니|아버지|"
    "친구|상사|아내|남편)(?:은|는|이|가))",
    "^(?:वह|वो|वे|(?:मेर[ीाे]|हमार[ीाे]) (?:बहन|भाई|माँ|मां|पिता|दोस्त|बॉस|पत्नी|पति|बेटा|बेटी))",
)
_FIRST_PERSON = _any(
    r"\b(?:i|i'm|me|my|mine|myself|we|we're|our|us)\b",
    r"\b(?:ich|mir|mich|mein\w*|wir|uns|unser\w*)\b",
    r"\b(?:je|moi|mon|ma|mes|nous|notre|nos)\b|\b[jm]'",
    r"\b(?:yo|me|mis?|mí|nosotros|soy|estoy|vivo|tengo|trabajo|prefiero|quiero|necesito|odio|puedo|bebo|"
    r"hablo|uso|estudio|"
    r"busco|viajo|tomo|evito|juego|leo|conduzco|duermo|voy|hago)\b",
    r"\b(?:io|mi|mio|mia|miei|mie|noi|sono|abito|ho|lavoro|preferisco|voglio|bevo|mangio|parlo|studio|amo|"
    r"posso|devo|viaggio|"
    r"detesto|guido|gioco|dormo|vado|faccio)\b",
    r"\b(?:eu|meus?|minhas?|nós|mim|sou|estou|moro|tenho|trabalho|prefiro|quero|preciso|odeio|gosto|falo|"
    r"estudo|posso|adoro|"
    r"não como|dirijo|jogo|durmo|vou|faço)\b",
    r"\b(?:я|мне|меня|мной|мо[йяёеи]|моего|моей|моих|мы|нам|нас|наш\w*)\b",
    r"\b(?:أنا|نحن|عندي|لدي|اسمي|عمري|أعيش|أسكن|أعمل|أحب|أفضل|أحتاج|أريد|أكره|أدرس|أستخدم|أشرب|أتكلم|أسافر|"
    r"لا [أآ]\w+|\w{3,}ي المفضل\w*)\b",
    "我|咱|私|僕|俺|わたし|(?:^|\\s)(?:저|제|나|내|우리)(?:는|가|를|도|의|\\s|$)|저를|मैं|मुझे|मेर[ाीे]|हम",
)
_UNSAID_FIRST_PERSON = _any(
    r"(?:です|ます|ません|たい|好き|嫌い|欲しい|必要)[^かね]*。?\s*$",
    r"(?:아요|어요|해요|에요|예요|습니다|워요|싶어요|싫어요|없어요)\.?\s*$",
)
_FOR_GOOD = _any(
    r"\b(?:always|never|from now on|in (?:the )?future|no more|every time|whenever|going forward|only|"
    r"at all times)\b",
    r"^(?:please )?(?:don'?t|do not|stop|avoid|no)\b|\b(?:call|address) me\b|\bcall(?:ed)? me\b",
    r"^(?:please )?(?:answer|reply|respond|write|speak)(?: to me)? (?:in|with|briefly|shortly)\b",
    r"^(?:please )?(?:use|keep|prefer)\b.*\b(?:spelling|units?|tone|format|language|currency|replies|answers|"
    r"style|short)\b",
    r"^(?:allergic|vegetarian|vegan|lactose|gluten|diabetic|colou?r-?blind|left-handed)\b",
    r"\b(?:immer|nie|niemals|ab jetzt|ab sofort|künftig|duze|nenn mich|antworte|kein\w* .*mehr)\b",
    r"\b(?:toujours|jamais|désormais|dorénavant|appelle-moi|appelez-moi|réponds-moi|ne .* plus)\b",
    r"\b(?:siempre|nunca|llámame|respóndeme|a partir de ahora|sempre|mai|chiamami|rispondimi|d'ora in poi|"
    r"chamar|chame|responda)\b",
    r"\b(?:всегда|никогда|отныне|зови(?:те)?|называй(?:те)?|отвечай(?:те)?|больше не)\b|دائما|أبدا|نادني|"
    r"أجبني|من الآن",
    "一直|总是|永远|不要|叫我|以后|别再|いつも|常に|今後|呼んで|二度と|항상|언제나|절대|불러|앞으로|हमेशा|"
    "कभी नहीं|बुलाइए|बुलाओ|अब से",
)
_TASK = _any(
    r"^(?:please |can you |could you |now )*(?:tell|show|give|help|send|find|write|make|explain|let|remind|"
    r"check|look|draft|list|"
    r"compare|calculate|fix|search|open|create|generate|read|describe|suggest|recommend|book|buy|order|"
    r"translate|summari[sz]e)\b",
    r"^(?:bitte )?(?:zeig|gib|hilf|such|schreib|erklär|mach|nenne|finde|schick)\w*\b",
    r"^(?:explique|montre|donne|aide|cherche|écris|fais|trouve)\w*\b|^(?:dime|muéstrame|dame|ayúdame|busca|"
    r"escribe|haz)\b",
    r"^(?:dimmi|mostrami|dammi|aiutami|cerca|scrivi|fai)\b|^(?:diga|mostre|ajude|procure|escreva|faça)\b",
    r"^(?:скажи|покажи|дай|помоги|найди|напиши|сделай)\w*\b|^(?:أخبرني|أعطني|ساعدني|اكتب|ابحث)\b|"
    r"^(?:请?(?:帮我|告诉我|给我|写|找))",
    "(?:教えて|見せて|書いて|探して|作って)|(?:알려|보여|찾아|써|만들어) ?(?:줘|주세요)|(?:बताओ|बताइए|दिखाओ|लिखो|ढूंढो)",
)
_OPENING = re.compile(
    r"^(?:\W|\b(?:oh|and|but|so|well|btw|by the way|also|hey|hi|hello|ok|okay|yes|no,|actually|fyi|übrigens|"
    r"ach|und|au fait|"
    r"por cierto|comunque|aliás|кстати)\b)+",
    re.IGNORECASE,
)


def lasting(sentence: str) -> bool:
    """Return whether a sentence says something lasting of its author."""
    plain = _OPENING.sub("", sentence.replace("’", "'")).strip() or sentence.strip()
    for_good = bool(_FOR_GOOD.search(plain))
    if _QUESTION.search(plain):
        return bool(_POLITE_REQUEST.search(plain))
    if _HYPOTHESIS.search(plain) or _SMALL_TALK.search(plain) or _OTHERS.search(plain):
        return False
    if for_good:
        return True
    return not _TASK.search(plain) and bool(_FIRST_PERSON.search(plain) or _UNSAID_FIRST_PERSON.search(plain))
