import type { Argument, Command, Option } from "commander";
import type { Kind } from "../../resources/kinds.ts";
import { findKind, isStackWord } from "../resource-references.ts";

/** The possible continuations of a command line. */
export interface Completion {
  readonly candidates: readonly CompletionCandidate[];
  /** The source of further candidates: the server or the companion. Undefined if there are none. */
  readonly source?: CandidateSource;
  /** The kind of paths that the shell adds to the candidates. */
  readonly paths: "none" | "files" | "folders";
}

export interface CompletionCandidate {
  readonly value: string;
  readonly description: string;
}

export type CandidateSource =
  | { readonly type: "names"; readonly kind: Kind; readonly prefix?: string }
  | { readonly type: "stacks"; readonly prefix?: string }
  | { readonly type: "tokens" }
  | { readonly type: "builds"; readonly app: string }
  /** Ids of apps with tools, from the companion. */
  | { readonly type: "tool-apps" }
  | { readonly type: "tools"; readonly appId: string }
  /** Ids of the calls that wait for a confirmation, from the companion. */
  | { readonly type: "parked-calls" }
  /** Ids of remote providers, from the companion. */
  | { readonly type: "providers" };

const noCompletion: Completion = { candidates: [], paths: "none" };
const kindCandidates: readonly CompletionCandidate[] = [
  { value: "apps", description: "containers that Berth runs" },
  { value: "models", description: "language models" },
  { value: "secrets", description: "confidential values for apps" },
  { value: "templates", description: "templates of the catalog" },
];
const stackCandidate: CompletionCandidate = {
  value: "stacks",
  description: "groups of apps",
};
/** The verbs that accept `stacks NAME` in addition to a kind and names of resources. */
const stackVerbs: readonly string[] = ["get", "describe", "delete", "start", "stop", "restart"];

/**
 * Completes `current`, the word under the cursor, after `words`, the complete words after `berth`. It reads the
 * command tree, so that it always matches the existing verbs and flags. Pure.
 */
export function complete(program: Command, words: readonly string[], current: string): Completion {
  let command = program;
  const positionals: string[] = [];
  let pendingOption: Option | undefined;
  let onlyPositionals = false;
  for (const word of words) {
    if (pendingOption !== undefined) {
      pendingOption = undefined;
      continue;
    }
    if (word === "--") onlyPositionals = true;
    else if (!onlyPositionals && word.startsWith("-")) {
      const option = findOption(program, resolveDefaultSubcommand(command), word);
      if (option !== undefined && takesValue(option) && !word.includes("=")) pendingOption = option;
    } else {
      const next = positionals.length === 0 ? findSubcommand(command, word) : undefined;
      if (next === undefined) positionals.push(word);
      else command = next;
    }
  }
  if (pendingOption !== undefined)
    return filterByPrefix(completeOptionValue(pendingOption), current);
  const leaf = resolveDefaultSubcommand(command);

  const assigned = /^(--[^=]+)=(.*)$/s.exec(current);
  if (assigned !== null && !onlyPositionals) {
    const option = findOption(program, leaf, assigned[1] ?? "");
    if (option === undefined) return noCompletion;
    const value = filterByPrefix(completeOptionValue(option), assigned[2] ?? "");
    return {
      ...value,
      candidates: value.candidates.map((candidate) => ({
        ...candidate,
        value: `${assigned[1]}=${candidate.value}`,
      })),
    };
  }
  if (current.startsWith("-") && !onlyPositionals)
    return filterByPrefix(
      { candidates: listFlagCandidates(program, leaf), paths: "none" },
      current,
    );

  const subcommands =
    positionals.length === 0
      ? listVisibleCommands(command).map((sub) => ({
          value: sub.name(),
          description: sub.summary(),
        }))
      : [];
  const argumentCompletion = completeArgument(program, leaf, positionals, current);
  return filterByPrefix(
    { ...argumentCompletion, candidates: [...subcommands, ...argumentCompletion.candidates] },
    current,
  );
}

/** Returns the subcommand that a verb runs by default, such as `list`, or the verb itself. */
function resolveDefaultSubcommand(command: Command): Command {
  return command.commands.find((sub) => sub.name() === "list") ?? command;
}

function findSubcommand(command: Command, word: string): Command | undefined {
  return [...command.commands, ...listVisibleCommands(command)].find(
    (sub) => sub.name() === word || sub.aliases().includes(word),
  );
}

/** Lists the commands that help shows, including `help` itself. */
function listVisibleCommands(command: Command): Command[] {
  return command.createHelp().visibleCommands(command);
}

function listOptions(program: Command, command: Command): Option[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command);
  return command === program
    ? own
    : [
        ...own,
        ...help
          .visibleOptions(program)
          .filter((option) => option.long !== "--help" && option.long !== "--version"),
      ];
}

function findOption(program: Command, command: Command, word: string): Option | undefined {
  const flag = word.split("=")[0] ?? word;
  return listOptions(program, command).find(({ short, long }) => short === flag || long === flag);
}

function takesValue(option: Option): boolean {
  return option.required || option.optional;
}

function listFlagCandidates(program: Command, command: Command): CompletionCandidate[] {
  return listOptions(program, command).map((option) => ({
    value: option.long ?? option.short ?? "",
    description: option.description,
  }));
}

function completeOptionValue(option: Option): Completion {
  if (option.argChoices !== undefined)
    return {
      candidates: option.argChoices.map((value) => ({ value, description: "" })),
      paths: "none",
    };
  const choices = /<([a-z]+(?:\|[a-z]+)+)>/.exec(option.flags)?.[1]?.split("|");
  if (choices !== undefined)
    return { candidates: choices.map((value) => ({ value, description: "" })), paths: "none" };
  if (option.flags.includes("<dir>")) return { candidates: [], paths: "folders" };
  if (/<(file|path)>/.test(option.flags)) return { candidates: [], paths: "files" };
  if (option.long === "--stack") return completeStacks();
  if (option.long === "--template")
    return { candidates: [], source: { type: "names", kind: "Template" }, paths: "none" };
  return noCompletion;
}

function completeNames(kind: Kind, prefix?: string): Completion {
  return {
    candidates: [],
    source: { type: "names", kind, ...(prefix === undefined ? {} : { prefix }) },
    paths: "none",
  };
}

function completeStacks(prefix?: string): Completion {
  return {
    candidates: [],
    source: { type: "stacks", ...(prefix === undefined ? {} : { prefix }) },
    paths: "none",
  };
}

/** Completes the argument that follows `positionals`. The name of the declared argument determines the candidates. */
function completeArgument(
  program: Command,
  command: Command,
  positionals: readonly string[],
  current: string,
): Completion {
  const declaredArguments = command.registeredArguments;
  const last = declaredArguments.at(-1);
  const argument: Argument | undefined =
    declaredArguments[positionals.length] ?? (last?.variadic === true ? last : undefined);
  if (argument === undefined) return noCompletion;
  if (argument.argChoices !== undefined)
    return {
      candidates: argument.argChoices.map((value) => ({ value, description: "" })),
      paths: "none",
    };
  const reference = /^([A-Za-z]+)\//.exec(current);
  const referenceKind = reference?.[1] === undefined ? undefined : findKind(reference[1]);
  if (reference !== null && referenceKind !== undefined)
    return completeNames(referenceKind, reference[0]);
  if (reference !== null && isStackWord(reference[1])) return completeStacks(reference[0]);
  if (positionals.length > 0 && isStackWord(positionals[0]) && stackVerbs.includes(command.name()))
    return completeStacks();
  switch (argument.name()) {
    case "app":
      return completeNames("App");
    case "stack":
      return completeStacks("stack/");
    case "secret":
      return completeNames("Secret");
    case "model":
      return completeNames("Model");
    case "token":
      return { candidates: [], source: { type: "tokens" }, paths: "none" };
    case "kind":
      // Most verbs accept the name of an app instead of a kind; get accepts only kinds.
      return command.name() === "get"
        ? { candidates: [...kindCandidates, stackCandidate], paths: "none" }
        : {
            ...completeNames("App"),
            candidates: stackVerbs.includes(command.name())
              ? [...kindCandidates, stackCandidate]
              : kindCandidates,
          };
    case "name": {
      const kind = findKind(positionals[0] ?? "");
      if (kind !== undefined) return completeNames(kind);
      return command.name() === "delete"
        ? {
            ...completeNames("App"),
            candidates: positionals.length === 0 ? [...kindCandidates, stackCandidate] : [],
          }
        : completeNames("App");
    }
    case "verb":
      return {
        candidates: listVisibleCommands(program).map((sub) => ({
          value: sub.name(),
          description: sub.summary(),
        })),
        paths: "none",
      };
    case "file":
      return { candidates: [], paths: "files" };
    case "folder":
      // deploy accepts the name of an app instead of a folder, so both are completed.
      return { ...completeNames("App"), paths: "folders" };
    case "app-id":
      return { candidates: [], source: { type: "tool-apps" }, paths: "none" };
    case "call-id":
      return { candidates: [], source: { type: "parked-calls" }, paths: "none" };
    case "provider":
      return { candidates: [], source: { type: "providers" }, paths: "none" };
    case "tool":
      return {
        candidates: [],
        source: { type: "tools", appId: positionals[0] ?? "" },
        paths: "none",
      };
    case "build":
      return {
        candidates: [],
        source: { type: "builds", app: positionals[0] ?? "" },
        paths: "none",
      };
    default:
      return noCompletion;
  }
}

function filterByPrefix(completion: Completion, current: string): Completion {
  return {
    ...completion,
    candidates: completion.candidates.filter(({ value }) => value.startsWith(current)),
  };
}
