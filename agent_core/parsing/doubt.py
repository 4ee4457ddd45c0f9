"""Words that say of a call that it is not to run: denied, cited, conditional, past, taken back.

A call that is doubted for nothing costs one more reply; one that was only spoken of is an
action that nobody asked for. So a few unmistakable words are enough, close to the call.
"""

from __future__ import annotations

import re

_DO_NOT = r"(?<![分特区區类類级級个個差])[别別](?![的人急处處])"
_UNKNOWN = (  # what is denied is to know the answer, not to act
    r"(?!(?:\s(?:directly|yet|simply))?\s(?:know|have|guess|see|find|remember|rely|need|assume|want"
    r"|be\s(?:answered|known|found)|(?:answer|tell)(?!\s(?:with|like|as|by)\b))\b"
    r"|[^，。：\n]{0,4}(?:回答(?!这|如)|作答|知道|知晓|猜|编造|确定))"
)
_DENIED = (
    rf"\b(?:(?:do not|don[’']t|must not|should not|cannot|will not|won[’']t|did not){_UNKNOWN}"
    r"|would have|never|(?:not|bad)(?=\s*+(?:[:：]|\Z))|refus\w+|declin\w+|reject\w+|blocked"
    r"|ignore this|avoid|wrong)\b"
    rf"|(?:不要|不能|不可|不会){_UNKNOWN}"
    rf"|请勿|勿|{_DO_NOT}|禁止|拒绝|拒絕|拦截|没有执行|未执行|错误示|反例"
)
_CITED = (
    r"\b(?:says?|said|reads?|wrote|writes|shows?|returned|contains?(?: \w+){0,2}|could write"
    r"|you (?:can|could|may|should)(?: [^.:,!?\n]{1,30}(?= with\b))?|yourself|looks? like|quote"
    r"|example|sample|template|such as)\b"
    r"|说(?!明)|說(?!明)|写道|写着|寫著|[里中]有|[你您](?:可以|自己)|原文|例如|比如|示例|样例|模板|内容"
)
_CONSIDERED = (  # prose that weighs a call, or asks about one
    r"\b(?:could|might|would(?! (?:like|love|prefer) to)|should(?= (?:be|I)\b)|option|alternatively"
    r"|instead of|rather than|without (?:call|runn|us|execut)ing|no need|something like|call was"
    r"|if (?:needed|necessary|required|desired|you)|usage|syntax|example|typical|hypothetical"
    r"|do you|did you)\b"
    r"|(?<!我)可以(?:用|使用|通过|这样|按|尝试)|(?:如果|如有|若)需|必要时|是否(?:要|需要|应该?|可以|执行|运行|调用|继续)"
    r"|要不要|避免|而不是|而非|(?:不必|无需|没必要)(?:再)?(?:执行|运行|调用|使用)|语法|用法|示例|[你您]是[想要否]|自行|假如|假设"
)
_CONDITIONAL = (  # somebody has yet to agree
    r"\b(?:if|once|when|unless|until|after|upon)\b[^.!?\n]{0,40}"
    r"\b(?:confirm|approv|agree|permi|consent|allow)\w*+"
    r"|(?:如果|若|待|等|一旦|经)[^。！？\n]{0,12}(?:确认|批准|同意|允许|许可|授权)"
    r"|(?:确认|批准|同意|允许)了?(?:之?后|的话)"
)
_PAST = (
    r"\b(?:already|earlier|previously),?(?: I)? (?:ran|run|called|did|done|executed)\b"
    r"|\b(?:history|transcript|previous (?:step|action|call))\b"
    r"|本来|原本|上次|上一步|(?:已经|之前)(?:执行|调用|运行)"
)
_ANEW = (  # what the model does now: the doubt before it was about something else
    r"[,，]\s*+(?:(?:(?:so|but|now)\s){0,2}(?:I(?:[’']ll|\s(?:will|need|call|use|try|retry|look|check|write))"
    r"\b(?!\s(?:not|never|only|just)\b)|let(?:[’']s|\sme)\b|again\b)"
    r"|(?:所以|因此|但)?我(?:来|将|要|需))"
)
_ON = rf"(?>(?!{_ANEW})[^.。！!?？;；\n]){{0,40}}+"
_TOLD = (
    rf"(?:{_PAST})(?>(?!{_ANEW})[,，])?+[^.。:：！!?？;；,，\n]{{0,40}}+"
    r"(?>[,，]\s*+(?:as follows|如下))?+"
)
_ANNOUNCED = (
    rf"(?i)(?:(?:{_DENIED}){_ON}|{_TOLD}"
    rf"|(?:{_CITED})(?>(?!{_ANEW})[,，])?+[^.。:：！!?？;；,，\n]{{0,20}}+"
    rf"|(?:{_CONDITIONAL})[^.。:：！!?？;；\n]{{0,20}}+)\s*+\Z"
)
_SPOKEN_OF = (
    rf"(?i)(?:(?:{_DENIED}|{_CITED}){_ON}|{_TOLD}|(?:{_CONDITIONAL})[^.。！!?？;；\n]{{0,40}}+)"
    r"\s*+[:：]?+\s*+\Z|\A\s*+(?:#|//|--)"
)
_WEIGHED = rf"(?i)(?:{_CONSIDERED})(?>(?!{_ANEW})[^.。！!?？;；\n]){{0,60}}+\s*+\Z"
_MORE = r"(?![^.!?\n]{0,60}\b(?:also|too|another|other|else)\b)"  # it is about something else
_TAKEN_BACK = (
    r"(?i)\b(?:(?:not|never|don[’']t|won[’']t)\s(?:actually\s)?"
    r"(?:be\s(?:run|executed|called|done)|run|execute|do(?=[.,!])"
    r"|(?:call|perform|follow|do|use)\s(?:this|it|that|them|so))\b"
    r"(?!\s(?:again|twice|more|longer|for)\b)"
    r"|(?:just|only)\san?\s(?:example|illustration)|example\sonly|(?:just|only)\skidding"
    r"|never\s?mind(?!\sthe)|on\ssecond\sthoughts?|decided\s(?:against|not\sto)"
    r"|(?:that|this|it)\s(?:is|would\sbe|could\sbe)\s(?:the\s|an?\s|too\s|very\s)?"
    r"(?:wrong|dangerous|harmful|risky|unsafe|destructive|bad|mistake)"
    r"(?=\s*+(?:[.,;!)]|\Z|(?:idea|action|call|choice|move|and|but|so)\b))"
    r"|how\sit\s(?:would|could|might)\slook|ask\s(?:you\s|the\suser\s)?first|do\syou\sagree"
    r"|(?:scratch|cancel|undo|forget|ignore|disregard)\s(?:this|that|it|(?:all\s)?the\sabove)"
    r"|(?:cancel|stop)[.!]"
    r"|(?:actually|wait|hm+|sorry|oops),?\s(?:no|not|cancel|stop)"
    rf"|(?:should|shall|may|can)\sI\s{_MORE}(?!help|assist)[^.!?\n]{{1,60}}\?"
    rf"|(?:do\syou\swant|would\syou\slike)\sme\sto{_MORE}"
    r"|is\s(?:this|that|it)\s(?:ok(?:ay)?|fine|all\sright|correct)\?|proceed\?|please\sconfirm"
    r"|wait(?:ing)?\sfor\syour\s(?:confirm|approv|permi|consent|ok|go)|if\sI\sshould)"
    rf"|(?<!如果)(?:不要|{_DO_NOT}|請勿|请勿|不会|不能|不应|不该|不应该)(?:真的)?"
    r"(?:执行|运行|调用|使用|照做|删)(?!其他|其它|别的|更多)"
    r"|(?://|#|--)\s*+(?:an?\s)?(?:example|sample|示例|例子)"
    r"|(?:不要|不能|不会|不该|不应该?)(?:再)?(?:这样|这么|那样)(?!说|写|想)|(?:不能|不该|不应该?|不会)做[的。，！]"
    r"|(?:只是|仅为|这是)(?:一个|个)?(?:例子|示例)|仅供参考|开玩笑|(?:忽略|无视)(?:上面|以上|上述|前面|这)"
    r"|先(?:问(?:一下)?[用你您]|征求|请示)|(?:太|很)危险|错误的(?:做法|操作|调用|行动|动作)|不是我(?:要|想)|算了|取消(?:吧|它|执行|调用|。|！)"
    r"|还是(?:不|别)|先别(?!回答|急)|请(?:先|您|你)?确认|[你您用户](?:的)?(?:确认|批准|同意)(?!过)"
    r"|(?:可以|确认|同意|继续|允许)(?:执行|运行|调用|操作|继续|这样做)?[吗嗎]"
    r"|(?:是否|要不要|能否|需要我|要我)(?:可以)?(?:继续|执行|运行|调用|确认)"
)
_DENIED_OF = (  # the call is the subject of a sentence: "… is what I must not do"
    r"(?>\s|`|</\w++>)*+(?:cannot\b|(?:is|was|would|must|should|could|can|will)(?:n[’']t\b"
    r"|\b[^.!?\n]{0,40}?\b(?:not|never|no|wrong|bad|dangerous|forbidden)\b))"
)
_DOUBTFUL = (
    r"(?i)\b(?:not?|don[’']?t|never|none|without|skip(?:ped)?|cancel(?:l?ed)?|avoid|instead|or|if"
    r"|(?<!json\s)only(?!\s(?:valid\s)?json)"
    r"|unless|when|once|until|example|sample|e\.g|pending|hypothetical|stop|abort|forbidden|cannot"
    r"|can[’']t|won[’']t|except)\b"
    r"|[不无無勿别別未非没沒或若禁莫待]|[只仅](?!\s?json)|取消|跳过|停止|示例|样例|例如|比如|例子|假设|如果|确认|批准"
)
_BEFORE = 100  # characters before a call that may announce it
_LINE = 300  # characters of its line before a call


def announces_quotation(text: str, line: int) -> bool:
    """Whether what stands right before `line` ends in words such as "the text says:"."""
    words = text[max(0, line - _BEFORE) : line].rstrip()
    return words[-1:] in (":", "：") and re.search(_ANNOUNCED, words[:-1]) is not None


def speaks_of(text: str, pos: int) -> bool:
    """Whether words before the call at `pos` on its line deny it, cite it, or comment it out."""
    floor = max(0, pos - _LINE)
    line = text.rfind("\n", floor, pos) + 1
    return re.search(_SPOKEN_OF, text[line or floor : pos]) is not None


def weighs(text: str, pos: int) -> bool:
    """Whether the sentence before a call at `pos` that no label announces only weighs it."""
    words = text[max(0, pos - _BEFORE) : pos].rstrip(" \t\r\n:：")
    return re.search(_WEIGHED, words) is not None


def takes_back(words: str) -> bool:
    """Whether words after a call take it back, deny something of it, or ask."""
    return re.search(_TAKEN_BACK, words) is not None or re.match(_DENIED_OF, words) is not None


def is_doubtful(remark: str) -> bool:
    """Whether a remark at a label, at a name or before an input says that it is not meant."""
    return re.search(_DOUBTFUL, remark) is not None
