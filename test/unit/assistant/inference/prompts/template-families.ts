import type { ChatVocabulary } from "../../../../../src/assistant/inference/prompts/chat-template.ts";
import { chatTemplate } from "../../../../support/gguf/sample-chat-template.ts";

export interface TemplateFamily {
  readonly template: string;
  readonly vocabulary: ChatVocabulary;
}

/** Chat templates like those of common model families, with the peculiarities of each. */
export const families: Readonly<Record<string, TemplateFamily>> = {
  /** The template supports tools, and refuses only a system message that is not the first message. */
  chatMl: {
    template: chatTemplate,
    vocabulary: vocabulary("<s>", "</s>", ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]),
  },
  /** The template begins answers with reasoning, and removes the reasoning from earlier answers. */
  qwen: {
    template: `{%- if tools %}<|im_start|>system
{%- if messages[0].role == 'system' %}{{ '\\n' + messages[0].content + '\\n' }}{%- endif %}
# Tools
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Write {"name": ..., "arguments": ...} within <tool_call></tool_call>.<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}
{%- set content = message.content %}
{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}<|im_start|>assistant
{{ content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif message.role == 'tool' %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{%- endif %}`,
    vocabulary: vocabulary("", "<|im_end|>", ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]),
  },
  /** The template trims text, renders the date, and writes one tool call at a time as plain JSON. */
  llama3: {
    template: `{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
{%- set rules = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set rules = '' %}{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{{- 'Today Date: ' + strftime_now('%d %b %Y') + '\\n\\n' }}{{- rules }}{{- '<|eot_id|>' }}
{%- for message in messages %}
{%- if message.role == 'tool' or message.role == 'ipython' %}
{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + message.content + '<|eot_id|>' }}
{%- elif 'tool_calls' in message %}
{%- if message.tool_calls | length != 1 %}{{- raise_exception('This model only supports single tool-calls at once!') }}{%- endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}{{- call.arguments | tojson }}{{- '}<|eot_id|>' }}
{%- else %}
{%- if loop.first and tools is defined and tools is not none %}
{{- '<|start_header_id|>user<|end_header_id|>\\n\\nRespond with JSON {"name": function name, "parameters": dictionary}.\\n\\n' }}
{%- for tool in tools %}{{- tool | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}
{{- message.content | trim + '<|eot_id|>' }}
{%- else %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}`,
    vocabulary: vocabulary("<|begin_of_text|>", "<|eot_id|>", [
      "<|begin_of_text|>",
      "<|end_of_text|>",
      "<|start_header_id|>",
      "<|end_header_id|>",
      "<|eot_id|>",
      "<|python_tag|>",
    ]),
  },
  /**
   * The template requires alternating roles, and call ids of nine characters. It renders the tools before the last
   * question.
   */
  mistral: {
    template: `{{ bos_token }}
{%- if messages[0].role == 'system' %}{%- set rules = messages[0].content %}{%- set turns = messages[1:] %}
{%- else %}{%- set rules = '' %}{%- set turns = messages %}{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in turns %}
{%- if message.role in ['user', 'assistant'] and not message.tool_calls %}
{%- if (message.role == 'user') != (ns.index % 2 == 0) %}{{- raise_exception('After the optional system message, conversation roles must alternate user/assistant') }}{%- endif %}
{%- set ns.index = ns.index + 1 %}
{%- endif %}
{%- endfor %}
{%- for message in turns %}
{%- if message.role == 'user' %}
{%- if tools is defined and loop.last %}{{- '[AVAILABLE_TOOLS] ' }}{{- tools | tojson }}{{- '[/AVAILABLE_TOOLS]' }}{%- endif %}
{{- '[INST] ' + (rules + '\\n\\n' if loop.last and rules else '') + message.content + '[/INST]' }}
{%- elif message.tool_calls %}
{{- '[TOOL_CALLS] [' }}
{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}
{{- '{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}{{- ', "id": "' + call.id + '"}' }}{{- ', ' if not loop.last else '' }}
{%- endfor %}
{{- ']' + eos_token }}
{%- elif message.role == 'assistant' %}
{{- ' ' + message.content | trim + eos_token }}
{%- elif message.role == 'tool' %}
{%- if message.tool_call_id | length != 9 %}{{- raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{%- endif %}
{{- '[TOOL_RESULTS] {"content": ' }}{{- message.content | tojson }}{{- ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- endif %}
{%- endfor %}`,
    vocabulary: vocabulary("<s>", "</s>", [
      "<unk>",
      "<s>",
      "</s>",
      "[INST]",
      "[/INST]",
      "[TOOL_CALLS]",
      "[AVAILABLE_TOOLS]",
      "[/AVAILABLE_TOOLS]",
      "[TOOL_RESULTS]",
      "[/TOOL_RESULTS]",
    ]),
  },
  /** The template puts a marker before each tool call, and the tool's name outside the JSON. */
  devstral: {
    template: `{{ bos_token }}{% for message in messages %}
{%- if message.role == 'system' %}{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' }}
{%- elif message.role == 'user' %}{{- '[INST]' + message.content + '[/INST]' }}
{%- elif message.role == 'assistant' %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' + call.function.arguments }}{%- endfor %}
{{- eos_token }}
{%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}
{%- endif %}
{%- endfor %}
{%- if tools %}{{- '[AVAILABLE_TOOLS]' }}{{- tools | tojson }}{{- '[/AVAILABLE_TOOLS]' }}{%- endif %}`,
    vocabulary: vocabulary("<s>", "</s>", [
      "<s>",
      "</s>",
      "[SYSTEM_PROMPT]",
      "[/SYSTEM_PROMPT]",
      "[INST]",
      "[/INST]",
      "[TOOL_CALLS]",
      "[ARGS]",
      "[AVAILABLE_TOOLS]",
      "[/AVAILABLE_TOOLS]",
      "[TOOL_RESULTS]",
      "[/TOOL_RESULTS]",
    ]),
  },
  /** The template has no system role and no tools, and calls the assistant "model". */
  gemma: {
    template: `{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}`,
    vocabulary: vocabulary("<bos>", "<eos>", [
      "<pad>",
      "<eos>",
      "<bos>",
      "<start_of_turn>",
      "<end_of_turn>",
    ]),
  },
  /** The template builds the names of its control tokens from the names of the roles. */
  phi: {
    template: `{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}`,
    vocabulary: vocabulary("<s>", "<|endoftext|>", [
      "<|endoftext|>",
      "<|assistant|>",
      "<|user|>",
      "<|system|>",
      "<|end|>",
      "<|placeholder1|>",
    ]),
  },
  /** The template ends the prompt with the opening tag of the reasoning. */
  r1: {
    template: `{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}{{ message.content }}{% elif message.role == 'user' %}{{ '<｜User｜>' + message.content }}{% elif message.role == 'assistant' %}{{ '<｜Assistant｜>' + message.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}`,
    vocabulary: vocabulary("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", [
      "<｜begin▁of▁sentence｜>",
      "<｜end▁of▁sentence｜>",
      "<｜User｜>",
      "<｜Assistant｜>",
    ]),
  },
};

function vocabulary(
  bosToken: string,
  eosToken: string,
  controlTokens: readonly string[],
): ChatVocabulary {
  return { bosToken, eosToken, controlTokens };
}

export function getFamily(name: string): TemplateFamily {
  const found = families[name];
  if (found === undefined) throw new Error(`no family ${name}`);
  return found;
}
