import { BerthError, InvalidSpecError } from "../../../base/errors.ts";
import { suggestion } from "../../../base/nearest.ts";
import { canonicalQuantization, type GgufName, readGgufName } from "./gguf-name.ts";
import { preferenceOf } from "./preference.ts";
import { assertPartCount } from "./split-names.ts";

export interface Wanted {
  readonly file: string | undefined;
  readonly quantization: string | undefined;
}

export interface Chosen {
  /** The first is the one to load; all parts of a split model, in their order. */
  readonly names: readonly string[];
  readonly quantization: string | null;
}

/** One model of a repository: one file, or the parts of a split one. */
interface Candidate {
  readonly first: GgufName;
  readonly members: readonly GgufName[];
}

/**
 * Picks the files of one model out of all that a repository lists. Pure. `title` names the repository in
 * messages. Throws `hub_not_found` (nothing fits; the message names what there is) and `invalid_spec`
 * (several fit alike).
 */
export function chooseFiles(title: string, listed: readonly string[], wanted: Wanted): Chosen {
  const all = candidatesOf(listed);
  if (wanted.file !== undefined) return chosen(title, byFile(title, all, wanted.file));
  const models = loadable(all);
  if (models.length === 0) throw nothingToLoad(title, all);
  if (wanted.quantization !== undefined)
    return chosen(title, byQuantization(title, models, wanted.quantization));
  return chosen(title, byPreference(title, models));
}

function candidatesOf(listed: readonly string[]): Candidate[] {
  const groups = new Map<string, GgufName[]>();
  for (const name of listed) {
    const read = readGgufName(name);
    if (!read) continue;
    const group = groups.get(read.group);
    if (group) group.push(read);
    else groups.set(read.group, [read]);
  }
  return [...groups.values()].map((members) => {
    const sorted = members.toSorted((a, b) => (a.part?.index ?? 0) - (b.part?.index ?? 0));
    const [first] = sorted;
    if (!first) throw new Error("a group has at least one member");
    return { first, members: sorted };
  });
}

/** Never a companion; a model that is made to guess for another one only where there is nothing else. */
function loadable(all: readonly Candidate[]): Candidate[] {
  const models = all.filter(({ first }) => first.role === "model");
  return models.length > 0 ? models : all.filter(({ first }) => first.role === "draft");
}

function byFile(title: string, all: readonly Candidate[], file: string): Candidate {
  const exact = all.find(({ members }) => members.some(({ name }) => name === file));
  if (exact) return exact;
  const inFolders = all.filter(({ members }) =>
    members.some(({ name }) => name.endsWith(`/${file}`)),
  );
  const [only] = inFolders;
  if (only && inFolders.length === 1) return only;
  if (only) throw severalFit(`${title} has several files ${file}`, inFolders);
  const names = all.flatMap(({ members }) => members.map(({ name }) => name));
  throw new BerthError("hub_not_found", `${title} has no file ${file}${suggestion(file, names)}`, {
    hint: `it has ${listOf(all.map(shown), "no GGUF file")}`,
  });
}

function byQuantization(title: string, models: readonly Candidate[], wanted: string): Candidate {
  const canonical = canonicalQuantization(wanted);
  const exact = models.filter(({ first }) => first.quantization === canonical);
  // Q4_K_XL may stand for UD-Q4_K_XL, where that is the only one of its kind.
  const dynamic = models.filter(({ first }) => first.quantization === `UD-${canonical}`);
  const fit = exact.length > 0 ? exact : dynamic;
  if (fit.length === 0) {
    const there = quantizations(models);
    throw new BerthError(
      "hub_not_found",
      `${title} has no file with quantization ${wanted}${suggestion(wanted, there)}`,
      {
        hint:
          there.length > 0
            ? `it has ${listOf(there, "")}`
            : `its names tell no quantization: choose with file among ${listOf(models.map(shown), "")}`,
      },
    );
  }
  return onlyOne(fit, `${title} has several files with quantization ${canonical}`);
}

function byPreference(title: string, models: readonly Candidate[]): Candidate {
  const [only] = models;
  if (only && models.length === 1) return only;
  const ranks = models.map((model) => preferenceOf(model.first.quantization ?? ""));
  const best = smallest(ranks);
  const fit = models.filter((_, index) => ranks[index] === best);
  return onlyOne(fit, `${title} has several models, and nothing says which one`);
}

/** Between files of one quantization: whole before split, and one outside folders before those inside. */
function onlyOne(fit: readonly Candidate[], problem: string): Candidate {
  const depths = fit.map(({ first }) => first.name.split("/").length);
  const least = smallest(depths);
  const shallow = fit.filter((_, index) => depths[index] === least);
  const whole = shallow.filter(({ first }) => first.part === null);
  const sameStem = new Set(shallow.map(stemOf)).size === 1;
  const left = sameStem && whole.length > 0 ? whole : shallow;
  const [only] = left;
  if (only && left.length === 1) return only;
  throw severalFit(problem, fit);
}

/** Repositories list thousands of files, which are too many for arguments of a call. */
function smallest(numbers: readonly number[]): number {
  return numbers.reduce((least, one) => Math.min(least, one), Number.POSITIVE_INFINITY);
}

function stemOf({ first }: Candidate): string {
  return first.name.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, "");
}

function chosen(title: string, { first, members }: Candidate): Chosen {
  if (first.part) {
    assertPartCount(first.name, first.part.count);
    const there = new Set(members.map(({ part }) => part?.index));
    const missing: number[] = [];
    for (let index = 1; index <= first.part.count && missing.length <= LISTED_MAX; index += 1)
      if (!there.has(index)) missing.push(index);
    if (missing.length > 0) {
      const parts = listOf(
        missing.map((index) => String(index).padStart(5, "0")),
        "",
      );
      throw new BerthError(
        "hub_not_found",
        `${title} lists ${stemOf({ first, members })} as ${first.part.count} parts, and lacks part ${parts}`,
        { hint: "it may still be on its way to the hub; try later, or choose another file" },
      );
    }
  }
  return { names: members.map(({ name }) => name), quantization: first.quantization };
}

function nothingToLoad(title: string, all: readonly Candidate[]): BerthError {
  return all.length === 0
    ? new BerthError("hub_not_found", `${title} has no GGUF file`, {
        hint: "choose a repository that has some: their names often end in -GGUF",
      })
    : new BerthError(
        "hub_not_found",
        `${title} has no model as GGUF file, only what goes with one`,
        {
          hint: `it has ${listOf(all.map(shown), "")}; file takes any of them`,
        },
      );
}

function severalFit(problem: string, fit: readonly Candidate[]): InvalidSpecError {
  const message = `${problem}: ${listOf(fit.map(shown), "")}`;
  return new InvalidSpecError(
    message,
    [{ path: "/spec/file", message }],
    "name one of them, with its folder, in spec.file",
  );
}

function quantizations(models: readonly Candidate[]): string[] {
  const found = new Set(models.flatMap(({ first }) => first.quantization ?? []));
  return [...found].toSorted((a, b) => preferenceOf(a) - preferenceOf(b) || a.localeCompare(b));
}

function shown({ first }: Candidate): string {
  return first.part ? `${first.name} (${first.part.count} parts)` : first.name;
}

/** Repositories of large publishers hold some thirty models; a message holds what can be read at once. */
const LISTED_MAX = 30;

function listOf(items: readonly string[], none: string): string {
  if (items.length === 0) return none;
  const more = items.length - LISTED_MAX;
  return items.slice(0, LISTED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
