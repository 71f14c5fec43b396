import type { Dice } from "../random.ts";
import { generateExpression, type Kind } from "./generated-expressions.ts";

/** Sets the variables that statements set later, because an undefined one would end most renderings early. */
const PRELUDE =
  "{% set ns = namespace(found=false, value='v') %}{% set text2, names2, count2 = 'T', ['n'], 4 %}" +
  "{% set block, key, person, node = 'b', 'k', people[1], tree[0] %}";

/** Generates templates of all statements of the template language, the tags of which control white space at random. */
export class TemplateGenerator {
  readonly #dice: Dice;
  #names = 0;
  #macros: string[] = [];

  constructor(dice: Dice) {
    this.#dice = dice;
  }

  generate(): string {
    this.#names = 0;
    this.#macros = [];
    const template = PRELUDE + this.#block(3, false);
    return this.#dice.chance(0.25) ? this.#mutate(template) : template;
  }

  /** Removes, doubles or moves one token, which shows whether both programs accept the same syntax. */
  #mutate(template: string): string {
    const tokens = template.match(/[{%#}]{2}[-+]?|[-+]?[%#}]\}|\w+|\s+|./gsu) ?? [];
    const at = this.#dice.between(0, tokens.length - 1);
    const token = tokens[at] ?? "";
    const change = this.#dice.pick(["remove", "double", "move", "replace"]);
    if (change === "remove") tokens.splice(at, 1);
    else if (change === "double") tokens.splice(at, 0, token);
    else if (change === "move") {
      tokens.splice(at, 1);
      tokens.splice(this.#dice.between(0, tokens.length), 0, token);
    } else
      tokens[at] = this.#dice.pick([",", "(", ")", "|", "is", "not", "-", "if", ".", "1", "\n"]);
    return tokens.join("");
  }

  #block(depth: number, isInLoop: boolean): string {
    const count = this.#dice.between(1, depth + 1);
    return Array.from({ length: count }, () => this.#statement(depth, isInLoop)).join("");
  }

  #statement(depth: number, isInLoop: boolean): string {
    if (depth <= 0) return this.#dice.chance(0.5) ? this.#text() : this.#output(isInLoop);
    const body = (loop = isInLoop) => this.#block(depth - 1, loop);
    const test = () => this.#expression("boolean", isInLoop);
    switch (this.#dice.between(0, 21)) {
      case 0:
      case 1:
      case 2:
        return this.#text();
      case 3:
      case 4:
      case 5:
      case 6:
        return this.#output(isInLoop);
      case 7:
      case 8: {
        const alternates = this.#dice.chance(0.4) ? this.#tag(`elif ${test()}`) + body() : "";
        const otherwise = this.#dice.chance(0.5) ? this.#tag("else") + body() : "";
        return this.#tag(`if ${test()}`) + body() + alternates + otherwise + this.#tag("endif");
      }
      case 9:
      case 10:
      case 11:
        return this.#loop(depth);
      case 12:
        return this.#tag(this.#assignment(isInLoop));
      case 13: {
        const filters = this.#dice.pick([
          "",
          " | upper",
          " | trim | title",
          ' | replace("a", "b")',
        ]);
        const name = this.#dice.pick(["text2", "block"]);
        return `${this.#tag(`set ${name}${filters}`)}${body()}${this.#tag("endset")}{{ ${name} }}`;
      }
      case 14:
        return this.#macro(depth);
      case 15: {
        const filter = this.#dice.pick(["upper", "trim", "indent(2)", "replace(' ', '_') | title"]);
        return this.#tag(`filter ${filter}`) + body() + this.#tag("endfilter");
      }
      case 16: {
        const value = this.#expression(this.#dice.pick(["text", "number", "list"]), isInLoop);
        const head = this.#dice.pick([`with text2 = ${value}`, `with x = ${value}, count2 = 2`]);
        return this.#tag(head) + body() + this.#tag("endwith");
      }
      case 17:
        return `{%${this.#sign()} raw ${this.#dice.pick(["", "-"])}%}${this.#text()}{{ x }}{% y %}{{# ${this.#text()}{%${this.#sign()} endraw ${this.#sign()}%}`;
      case 18:
        return `{#${this.#sign()} ${this.#text().replaceAll("#}", "")} ${this.#sign()}#}`;
      case 19:
        return this.#tag("generation") + body() + this.#tag("endgeneration");
      case 20: {
        this.#names += 1;
        const scoped = this.#dice.pick(["", " scoped"]);
        const head = this.#tag(`block b${this.#names}${scoped}`);
        // No block sets a variable of the request, because Jinja2 then hides the variable already before.
        return head + this.#text() + this.#output(false) + this.#tag("endblock");
      }
      default:
        return this.#tag(`print ${this.#expression("any", isInLoop)}`);
    }
  }

  #loop(depth: number): string {
    const [target, items, kind] = this.#dice.pick([
      ["x", this.#expression("list", false), "plain"],
      ["x", this.#expression("list", false), "plain"],
      ["person", "people", "plain"],
      ["key, value", "object.items()", "plain"],
      ["(key, value)", "object | items", "plain"],
      ["key, (a, b)", "[(1, (2, 3)), ('x', ('y', 'z'))]", "plain"],
      ["x", "1, 2, 'c'", "plain"],
      ["node", "tree", "recursive"],
    ] as const);
    const condition = this.#dice.pick([
      "",
      "",
      ` if ${this.#expression("boolean", false)}`,
      " if not ns.found",
    ]);
    const isRecursive = kind === "recursive";
    const head = `for ${target} in ${items}${condition}${isRecursive ? " recursive" : ""}`;
    const jump = this.#dice.chance(0.2)
      ? `{% if ${this.#expression("boolean", true)} %}{% ${this.#dice.pick(["break", "continue"])} %}{% endif %}`
      : "";
    const found = this.#dice.chance(0.3) ? "{% set ns.found = loop.index > 1 %}" : "";
    const inner = isRecursive ? "<{{ node.name }}{{ loop.depth }}{{ loop(node.children) }}>" : "";
    const otherwise = this.#dice.chance(0.3) ? this.#tag("else") + this.#text() : "";
    const body = this.#block(depth - 1, true);
    return this.#tag(head) + jump + inner + body + found + otherwise + this.#tag("endfor");
  }

  #assignment(isInLoop: boolean): string {
    const any = this.#expression("any", isInLoop);
    return this.#dice.pick([
      `set text2 = ${this.#expression("text", isInLoop)}`,
      `set names2 = ${this.#expression("list", isInLoop)}`,
      `set count2 = ${this.#expression("number", isInLoop)}`,
      `set a, b = ${any}, ${any}`,
      `set (a, b) = (${any}, 2)`,
      `set ns.value = ${any}`,
      `set a = ${any},`,
    ]);
  }

  #macro(depth: number): string {
    const name = `m${++this.#names}`;
    const body = this.#block(depth - 1, false);
    const [parameters, call] = this.#dice.pick([
      ["", ""],
      ["text2, count2=1", "'given'"],
      ["text2='default', names2=[text2]", "names2=3"],
      ["x", "x=names, *[]"],
    ] as const);
    this.#macros.push(name);
    const extra = this.#dice.pick([
      "",
      "{{ varargs }}{{ kwargs }}",
      "{{ caller() if caller else '' }}",
    ]);
    const define = this.#tag(`macro ${name}(${parameters})`) + body + extra + this.#tag("endmacro");
    if (!extra.includes("caller")) return `${define}{{ ${name}(${call}) }}`;
    return `${define}${this.#tag(`call ${name}(${call})`)}${this.#text()}{{ names }}${this.#tag("endcall")}`;
  }

  #output(isInLoop: boolean): string {
    const value = this.#expression("any", isInLoop);
    return `{{${this.#dice.pick(["", "", "-", "+"])} ${value} ${this.#dice.pick(["", "", "-"])}}}`;
  }

  #tag(content: string): string {
    return `{%${this.#sign()} ${content} ${this.#sign()}%}`;
  }

  #sign(): string {
    return this.#dice.pick(["", "", "-", "+"]);
  }

  #text(): string {
    const part = () =>
      this.#dice.pick([
        "a",
        "B",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "é",
        "}",
        "{",
        "%",
        "#",
        "-",
        "<|x|>",
      ]);
    return Array.from({ length: this.#dice.between(1, 5) }, part)
      .join("")
      .replaceAll(/\{(?=[{%#]|$)/g, "(");
  }

  #expression(kind: Kind, isInLoop: boolean): string {
    return generateExpression(this.#dice, kind, { isInLoop, macros: this.#macros });
  }
}
