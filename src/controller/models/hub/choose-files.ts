import { BerthError, InvalidSpecError } from "../../../base/errors.ts";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import { canonicalQuantization, type GgufName, parseGgufName } from "./gguf-name.ts";
import { rankQuantization } from "./quantization-preference.ts";
import { assertPartCount } from "./split-names.ts";

export interface FileRequest {
  readonly file: string | undefined;
  readonly quantization: string | undefined;
}

export interface ChosenFiles {
  /** The first name is the file to load. A split model has the names of all parts in their order. */
  readonly names: readonly string[];
  readonly quantization: string | null;
}

/** One model of a repository: one file, or the parts of a split one. */
interface ModelGroup {
  readonly first: GgufName;
  readonly members: readonly GgufName[];
}

/**
 * Chooses the files of one model from all files of a repository. Pure. `title` names the repository in messages.
 * Throws `hub_not_found` if no file matches (the message lists the files), and `invalid_spec` if several models match
 * equally.
 */
export function chooseFiles(
  title: string,
  listed: readonly string[],
  wanted: FileRequest,
): ChosenFiles {
  const all = groupFiles(listed);
  if (wanted.file !== undefined) return toChosenFiles(title, findByFile(title, all, wanted.file));
  const models = selectLoadable(all);
  if (models.length === 0) throw noLoadableModelError(title, all);
  if (wanted.quantization !== undefined)
    return toChosenFiles(title, findByQuantization(title, models, wanted.quantization));
  return toChosenFiles(title, findByPreference(title, models));
}

function groupFiles(listed: readonly string[]): ModelGroup[] {
  const groups = new Map<string, GgufName[]>();
  for (const name of listed) {
    const read = parseGgufName(name);
    if (!read) continue;
    const group = groups.get(read.group);
    if (group) group.push(read);
    else groups.set(read.group, [read]);
  }
  return [...groups.values()].map((members) => {
    const sorted = members.toSorted((a, b) => (a.part?.index ?? 0) - (b.part?.index ?? 0));
    const [first] = sorted;
    if (!first) throw new Error("a group of GGUF files has no member");
    return { first, members: sorted };
  });
}

/**
 * Leaves out files that accompany a model, such as image projectors. Also leaves out draft models, unless there are no
 * other models.
 */
function selectLoadable(all: readonly ModelGroup[]): ModelGroup[] {
  const models = all.filter(({ first }) => first.role === "model");
  return models.length > 0 ? models : all.filter(({ first }) => first.role === "draft");
}

function findByFile(title: string, all: readonly ModelGroup[], file: string): ModelGroup {
  const exact = all.find(({ members }) => members.some(({ name }) => name === file));
  if (exact) return exact;
  const inFolders = all.filter(({ members }) =>
    members.some(({ name }) => name.endsWith(`/${file}`)),
  );
  const [only] = inFolders;
  if (only && inFolders.length === 1) return only;
  if (only) throw ambiguousChoiceError(`${title} has several files named ${file}`, inFolders);
  const names = all.flatMap(({ members }) => members.map(({ name }) => name));
  throw new BerthError(
    "hub_not_found",
    `${title} has no file ${file}${formatSuggestion(file, names)}`,
    {
      hint: `the repository has ${formatList(all.map(describeGroup), "no GGUF file")}`,
    },
  );
}

function findByQuantization(
  title: string,
  models: readonly ModelGroup[],
  wanted: string,
): ModelGroup {
  const canonical = canonicalQuantization(wanted);
  const exact = models.filter(({ first }) => first.quantization === canonical);
  // The quantization Q4_K_XL in a spec also matches files with UD-Q4_K_XL if no other file matches.
  const dynamic = models.filter(({ first }) => first.quantization === `UD-${canonical}`);
  const fit = exact.length > 0 ? exact : dynamic;
  if (fit.length === 0) {
    const there = listQuantizations(models);
    throw new BerthError(
      "hub_not_found",
      `${title} has no file with quantization ${wanted}${formatSuggestion(wanted, there)}`,
      {
        hint:
          there.length > 0
            ? `the repository has ${formatList(there, "")}`
            : `the file names of the repository contain no quantization: set file to one of ${formatList(models.map(describeGroup), "")}`,
      },
    );
  }
  return requireOne(fit, `${title} has several files with quantization ${canonical}`);
}

function findByPreference(title: string, models: readonly ModelGroup[]): ModelGroup {
  const [only] = models;
  if (only && models.length === 1) return only;
  const ranks = models.map((model) => rankQuantization(model.first.quantization ?? ""));
  const best = smallest(ranks);
  const fit = models.filter((_, index) => ranks[index] === best);
  return requireOne(fit, `${title} has several models, and the spec does not choose one`);
}

/**
 * Chooses one of several models with the same quantization: a file outside of folders rather than one in a folder, and
 * a single file rather than a split model. Throws if more than one model, or none, is left.
 */
function requireOne(fit: readonly ModelGroup[], problem: string): ModelGroup {
  const depths = fit.map(({ first }) => first.name.split("/").length);
  const least = smallest(depths);
  const shallow = fit.filter((_, index) => depths[index] === least);
  const whole = shallow.filter(({ first }) => first.part === null);
  const sameStem = new Set(shallow.map(getFileStem)).size === 1;
  const left = sameStem && whole.length > 0 ? whole : shallow;
  const [only] = left;
  if (only && left.length === 1) return only;
  throw ambiguousChoiceError(problem, fit);
}

/**
 * Returns the smallest number without spreading the list into arguments. Repositories have thousands of files, and
 * the number of arguments is limited.
 */
function smallest(numbers: readonly number[]): number {
  return numbers.reduce((least, one) => Math.min(least, one), Number.POSITIVE_INFINITY);
}

function getFileStem({ first }: ModelGroup): string {
  return first.name.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, "");
}

function toChosenFiles(title: string, { first, members }: ModelGroup): ChosenFiles {
  if (first.part) {
    assertPartCount(first.name, first.part.count);
    const there = new Set(members.map(({ part }) => part?.index));
    const missing: number[] = [];
    for (let index = 1; index <= first.part.count && missing.length <= LISTED_MAX; index += 1)
      if (!there.has(index)) missing.push(index);
    if (missing.length > 0) {
      const parts = formatList(
        missing.map((index) => String(index).padStart(5, "0")),
        "",
      );
      throw new BerthError(
        "hub_not_found",
        `${title} lists ${getFileStem({ first, members })} as ${first.part.count} parts, but part ${parts} is missing`,
        { hint: "perhaps the upload is not complete yet; try later, or choose another file" },
      );
    }
  }
  return { names: members.map(({ name }) => name), quantization: first.quantization };
}

function noLoadableModelError(title: string, all: readonly ModelGroup[]): BerthError {
  return all.length === 0
    ? new BerthError("hub_not_found", `${title} has no GGUF file`, {
        hint: "choose a repository with GGUF files: their names often end in -GGUF",
      })
    : new BerthError(
        "hub_not_found",
        `${title} has no model as a GGUF file, only files that accompany one`,
        {
          hint: `the repository has ${formatList(all.map(describeGroup), "")}; set file to use one of them`,
        },
      );
}

function ambiguousChoiceError(problem: string, fit: readonly ModelGroup[]): InvalidSpecError {
  const message = `${problem}: ${formatList(fit.map(describeGroup), "")}`;
  return new InvalidSpecError(
    message,
    [{ path: "/spec/file", message }],
    "set spec.file to one of these files, with its folder",
  );
}

function listQuantizations(models: readonly ModelGroup[]): string[] {
  const found = new Set(models.flatMap(({ first }) => first.quantization ?? []));
  return [...found].toSorted(
    (a, b) => rankQuantization(a) - rankQuantization(b) || a.localeCompare(b),
  );
}

function describeGroup({ first }: ModelGroup): string {
  return first.part ? `${first.name} (${first.part.count} parts)` : first.name;
}

/** The maximum number of items that a message lists. Repositories of large publishers have about thirty models. */
const LISTED_MAX = 30;

function formatList(items: readonly string[], none: string): string {
  if (items.length === 0) return none;
  const more = items.length - LISTED_MAX;
  return items.slice(0, LISTED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
