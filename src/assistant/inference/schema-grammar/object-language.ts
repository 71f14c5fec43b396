import { compileAdditionalMembers } from "./additional-members.ts";
import { choice, literal, rule, sequence } from "./combinators.ts";
import type { Expression } from "./expression.ts";
import type { LanguageContext } from "./language-context.ts";
import { getPropertySchemas, listDeclaredNames } from "./member-schemas.ts";
import type { ObjectAlternative } from "./normal-form.ts";
import { refuseKeyword } from "./schema-refusal.ts";
import { matchesSchemas } from "./value-matching.ts";

/** The maximum number of consecutive members that are written into one rule. */
const ROW_MAX = 12;
/**
 * The maximum number of states of the automaton for one object. The automaton has a state for each property and each
 * counted number of members.
 */
const STATES_MAX = 6_000;

interface Member {
  readonly required: boolean;
  /**
   * Matches the member's name without its opening quote, and the member's value. The opening quote is written once,
   * before the choice of the next member.
   */
  readonly expression: Expression;
}

/**
 * Compiles an object: its properties in the schema's order, each at most once, then the additional properties. Each
 * member's rule ends with a reference to the rule of the next member, so that a sampler has only one stack for each
 * name that may follow.
 */
export function compileObject(
  language: LanguageContext,
  alternative: ObjectAlternative,
  hint: string,
): Expression | undefined {
  const extras = compileAdditionalMembers(language, alternative, hint);
  const members = compileMembers(language, alternative, [
    ...listDeclaredNames(alternative),
    ...extras.names,
  ]);
  if (!members) return undefined;
  const needed = members.filter((member) => member.required).length;
  const most = extras.expression ? Number.POSITIVE_INFINITY : members.length;
  if (alternative.min > most) return undefined;
  const max = alternative.max !== undefined && alternative.max < most ? alternative.max : undefined;
  const min = alternative.min > needed ? alternative.min : 0;
  if (extras.expression && min > needed + 1) {
    refuseKeyword(
      "minProperties",
      alternative.pointer,
      `requires several properties in addition to the required ones, but names of additional properties may repeat; list the properties, or set additionalProperties to false`,
    );
  }
  // If neither minProperties nor maxProperties has an effect, the automaton does not count properties.
  const states = max ?? min;
  if ((members.length + 1) * (states + 1) > STATES_MAX) {
    refuseKeyword(
      max === undefined ? "minProperties" : "maxProperties",
      alternative.pointer,
      "is too large for the number of properties",
    );
  }
  return new MemberRules(language, hint, members, extras.expression, min, max, states).compile();
}

/** Compiles the declared properties; returns undefined if a required property cannot have a value. */
function compileMembers(
  language: LanguageContext,
  alternative: ObjectAlternative,
  names: readonly string[],
): readonly Member[] | undefined {
  const { normalizer, blank } = language;
  const members: Member[] = [];
  const required = new Set(alternative.required);
  const forbidden = new Set(alternative.forbidden);
  for (const name of new Set(names)) {
    if (forbidden.has(name) || !matchesSchemas(normalizer, alternative.names, name)) {
      if (required.has(name)) return undefined;
      continue;
    }
    const value = language.valueRule(
      getPropertySchemas(alternative, name, normalizer.scalars),
      name,
    );
    const text = sequence(literal(`${JSON.stringify(name).slice(1)}:`), blank, value);
    members.push({ required: required.has(name), expression: text });
  }
  return members;
}

class MemberRules {
  readonly #language: LanguageContext;
  readonly #hint: string;
  readonly #members: readonly Member[];
  readonly #additional: Expression | undefined;
  readonly #min: number;
  readonly #max: number | undefined;
  /**
   * The automaton counts members up to this number: it treats an object with more members like one with exactly this
   * number.
   */
  readonly #states: number;
  readonly #close: Expression;

  constructor(
    language: LanguageContext,
    hint: string,
    members: readonly Member[],
    extra: Expression | undefined,
    min: number,
    max: number | undefined,
    states: number,
  ) {
    this.#language = language;
    this.#hint = hint;
    this.#members = members;
    this.#additional = extra;
    this.#min = min;
    this.#max = max;
    this.#states = states;
    this.#close = sequence(language.blank, literal("}"));
  }

  compile(): Expression | undefined {
    const { blank } = this.#language;
    const extras = this.#additionalRules();
    const count = this.#members.length;
    // `names[n]` matches the rest of an object after `n` members and the opening quote of the next name. The loop adds
    // the declared members from the last to the first.
    let names: (Expression | undefined)[] = [];
    let open = true;
    let row = 0;
    for (let index = count - 1; index >= 0; index -= 1) {
      const member = this.#members[index];
      if (!member) continue;
      const before = index > 0 ? this.#members[index - 1] : undefined;
      row += 1;
      // If only the previous member's rule refers to this member, the member is written into that rule instead of a
      // rule of its own. A rule contains at most ROW_MAX members.
      const shared = before?.required !== true || this.#states > 0 || row % ROW_MAX === 0;
      const later = names;
      const mayClose = open;
      names = [];
      for (let memberCount = 0; memberCount <= Math.min(index, this.#states); memberCount += 1) {
        if (this.#max !== undefined && memberCount >= this.#max) continue;
        const next = Math.min(memberCount + 1, this.#states);
        const after = this.#afterMember(
          later[next],
          mayClose ? extras[next] : undefined,
          mayClose,
          next,
        );
        const own = after && sequence(member.expression, after);
        const body = choice([own, member.required ? undefined : later[memberCount]]);
        names[memberCount] = body && shared && index > 0 ? this.#nameRule(body) : body;
      }
      if (member.required) open = false;
    }
    const entry = this.#entry(names[0], open ? extras[0] : undefined);
    const closed = open && this.#min === 0 ? literal("}") : undefined;
    const inside = choice([closed, entry]);
    return inside && sequence(literal("{"), blank, inside);
  }

  /** Builds what follows a member: the end, or a comma and the next members. */
  #afterMember(
    names: Expression | undefined,
    extra: Expression | undefined,
    mayClose: boolean,
    memberCount: number,
  ): Expression | undefined {
    const full = this.#max !== undefined && memberCount >= this.#max;
    const entry = full ? undefined : this.#entry(names, extra);
    return choice([
      entry && sequence(literal(","), this.#language.blank, entry),
      mayClose && memberCount >= this.#min ? this.#close : undefined,
    ]);
  }

  #entry(names: Expression | undefined, extra: Expression | undefined): Expression | undefined {
    return choice([names && sequence(literal('"'), names), extra]);
  }

  /**
   * Returns the grammars of one or more additional members and the object's end, indexed by the number of members
   * before them.
   */
  #additionalRules(): readonly (Expression | undefined)[] {
    const extra = this.#additional;
    if (!extra) return [];
    const { table, blank } = this.#language;
    const comma = sequence(literal(","), blank);
    if (this.#max === undefined) {
      const name = table.reserve(`${this.#hint}-more`);
      const rest = choice([sequence(comma, rule(name)), this.#close]);
      table.set(name, rest ? sequence(extra, rest) : extra);
      // Only one additional member counts towards the minimum, because the next one may have the same name.
      return Array.from({ length: this.#states + 1 }, (_, so) =>
        so + 1 >= this.#min ? rule(name) : undefined,
      );
    }
    const rules: (Expression | undefined)[] = [];
    for (let so = this.#max - 1; so >= 0; so -= 1) {
      // These rules need not check `minProperties`, because additional members may begin only after at least
      // `minProperties` - 1 other members.
      const next = rules[so + 1];
      const rest = choice([next && sequence(comma, next), this.#close]);
      rules[so] = rest && this.#nameRule(sequence(extra, rest));
    }
    return rules.map((expression, so) => (so + 1 >= this.#min ? expression : undefined));
  }

  #nameRule(body: Expression): Expression {
    const name = this.#language.table.reserve(`${this.#hint}-next`);
    this.#language.table.set(name, body);
    return rule(name);
  }
}
