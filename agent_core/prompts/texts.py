"""The sentences of a protocol, in English and Chinese; the two are equals."""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.messages import Language


@dataclass(frozen=True, slots=True)
class Texts:
    """Labels and sentences of one language. Braces are filled by `str.format`."""

    thought: str
    action: str
    action_input: str
    observation: str
    final_answer: str
    colon: str
    intro: str
    intro_native: str
    toolless: str
    tools: str
    required: str
    optional: str
    default: str
    how: str
    how_labels: str
    rules: str
    example: str
    question: str
    unlabelled: str
    empty: str
    empty_native: str
    no_reply: str
    repeated: str
    cancelled: str


EN = Texts(
    thought="Thought",
    action="Action",
    action_input="Action Input",
    observation="Observation",
    final_answer="Final Answer",
    colon=": ",
    intro="You answer questions with the help of tools, one step at a time.",
    intro_native=(
        "You answer questions with the help of tools. Call a tool when you need a fact or a "
        "calculation. Once you have the results, answer the question in plain words."
    ),
    toolless=(
        "You answer questions, in exactly this form:\n"
        "Thought: how you come to the answer\n"
        "Final Answer: the answer"
    ),
    tools="Tools:",
    required="required",
    optional="optional",
    default="default",
    how=(
        "To use a tool, write exactly two lines and stop:\n"
        "Thought: what you need to find out next, and why\n"
        'Action: {"name": "tool name", "parameters": {"parameter name": "value"}}\n'
        "The result follows as `Observation:`. Never write an Observation yourself.\n"
        "As soon as the observations hold all you need, write:\n"
        "Thought: …\n"
        "Final Answer: …"
    ),
    how_labels=(
        "To use a tool, write exactly three lines and stop:\n"
        "Thought: what you need to find out next, and why\n"
        "Action: tool name\n"
        'Action Input: {"parameter name": "value"}\n'
        "The result follows as `Observation:`. Never write an Observation yourself.\n"
        "As soon as the observations hold all you need, write:\n"
        "Thought: …\n"
        "Final Answer: …"
    ),
    rules=(
        "Rules: one action at a time. Real values in the parameters, never their description. "
        "A question with several parts needs a Final Answer with the result of each part. Never "
        "repeat an action whose observation you have. If no tool is needed, give the Final "
        "Answer at once."
    ),
    example="Example:",
    question="Question",
    unlabelled=(
        "Your reply had neither an action nor `Final Answer:`. The question is: {question}\n"
        "Write `Thought:` and `Action:` to look something up, or `Final Answer:` and the answer."
    ),
    empty="Your reply was empty. Continue with a Thought.",
    empty_native="Your reply was empty. Call a tool, or answer the question: {question}",
    no_reply="(no reply)",
    repeated=(
        "Not run: exactly this action was asked for {times} times, and its result stands above. "
        "Do not ask for it again: answer with it, or try something else."
    ),
    cancelled="Not run: the run was cancelled.",
)

ZH = Texts(
    thought="思考",
    action="行动",
    action_input="行动输入",
    observation="观察",
    final_answer="最终答案",
    colon="：",
    intro="你借助工具一步一步地回答问题。",
    intro_native=(
        "你借助工具回答问题。需要事实或计算时就调用工具；得到结果后，用通俗的话回答问题。"
    ),
    toolless="你回答问题，只用下面的形式：\n思考：怎样得出答案\n最终答案：答案",
    tools="工具：",
    required="必填",
    optional="可选",
    default="默认",
    how=(
        "要使用工具时，只写下面两行，然后停下：\n"
        "思考：接下来需要知道什么，为什么\n"
        '行动：{"name": "工具名", "parameters": {"参数名": "值"}}\n'
        "结果会以“观察：”给出，你自己绝不要写“观察”。\n"
        "观察到的内容已经足够时，写：\n"
        "思考：……\n"
        "最终答案：……"
    ),
    how_labels=(
        "要使用工具时，只写下面三行，然后停下：\n"
        "思考：接下来需要知道什么，为什么\n"
        "行动：工具名\n"
        '行动输入：{"参数名": "值"}\n'
        "结果会以“观察：”给出，你自己绝不要写“观察”。\n"
        "观察到的内容已经足够时，写：\n"
        "思考：……\n"
        "最终答案：……"
    ),
    rules=(
        "规则：每次只做一个行动。参数里写真实的值，不要写参数的说明。"
        "问题有几个部分，最终答案里就要写出每个部分的结果。已经有观察结果的行动不要重复。"
        "不需要工具时，直接给出最终答案。"
    ),
    example="示例：",
    question="问题",
    unlabelled=(
        "你的回复里既没有行动，也没有“最终答案：”。问题是：{question}\n"
        "需要查找时写“思考：”和“行动：”，否则写“最终答案：”和回答。"
    ),
    empty="你的回复是空的。请从“思考：”继续。",
    empty_native="你的回复是空的。请调用工具，或者回答这个问题：{question}",
    no_reply="（没有回复）",
    repeated=(
        "没有执行：完全相同的行动已经要求了 {times} 次，结果就在上面。"
        "不要再要求它：请用已有的结果回答，或换一种做法。"
    ),
    cancelled="没有执行：运行已取消。",
)

TEXTS: dict[Language, Texts] = {"en": EN, "zh": ZH}
