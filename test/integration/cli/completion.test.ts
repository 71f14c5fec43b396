import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { complete } from "../../../src/cli/completion/complete-command-line.ts";
import { completionScripts } from "../../../src/cli/completion/scripts.ts";
import { processIo } from "../../../src/cli/io.ts";
import { buildProgram } from "../../../src/cli/program.ts";
import { kindsByWord } from "../../../src/cli/resource-references.ts";
import { kinds, plurals } from "../../../src/resources/kinds.ts";
import { openTestApi, putApp } from "../../support/api-harness.ts";
import { runCommandLine } from "../../support/run-cli.ts";

const { program } = buildProgram(processIo({}));
const source = (words: string[], current = "") => complete(program, words, current).source;
const values = (words: string[], current = "") =>
  complete(program, words, current).candidates.map(({ value }) => value);

it("the command line and the resources use the same names of kinds", () => {
  for (const kind of kinds) {
    expect(kindsByWord.get(kind.toLowerCase())).toBe(kind);
    expect(kindsByWord.get(plurals[kind])).toBe(kind);
  }
  expect(new Set(kindsByWord.values()).size).toBe(kinds.length);
});

describe("the completer of the command line", () => {
  it("completes verbs and their subcommands", () => {
    expect(values([], "de")).toEqual(["describe", "deploy", "delete"]);
    expect(values(["secrets"])).toEqual(["list", "set", "unset", "rm"]);
    expect(values(["token"], "r")).toEqual(["revoke"]);
    expect(values(["help"], "bac")).toEqual(["backup"]);
    expect(values([])).not.toContain("__complete");
  });

  it("completes flags, including the global ones", () => {
    expect(values(["get"], "--se")).toEqual(["--selector"]);
    expect(values(["get"], "--u")).toEqual(["--url"]);
    expect(values(["secrets", "set"], "--t")).toEqual(["--type"]);
    expect(values(["delete", "--"], "--f")).toEqual([]);
  });

  it("completes the values of flags, after a blank or an equals sign", () => {
    expect(values(["get", "apps", "-o"])).toEqual(["json", "yaml", "wide", "name"]);
    expect(values(["get", "apps", "--output"], "w")).toEqual(["wide"]);
    expect(values(["get"], "--output=y")).toEqual(["--output=yaml"]);
    expect(values(["up", "--ingress"])).toEqual(["auto", "process", "container", "off"]);
    expect(values(["token", "create", "--scope"])).toEqual(["read", "write", "admin"]);
    expect(complete(program, ["apply", "-f"], "").paths).toBe("files");
    expect(complete(program, ["up", "--specs-dir"], "").paths).toBe("folders");
    expect(complete(program, ["--data-dir"], "").paths).toBe("folders");
  });

  it("chooses, for each argument, the kind of names that complete it", () => {
    expect(source(["logs"])).toEqual({ type: "names", kind: "App" });
    expect(source(["get", "secrets"])).toEqual({ type: "names", kind: "Secret" });
    expect(source(["get", "-o", "yaml", "secrets"])).toEqual({ type: "names", kind: "Secret" });
    expect(source(["describe"], "tpl/po")).toEqual({
      type: "names",
      kind: "Template",
      prefix: "tpl/",
    });
    expect(source(["stop", "a"])).toEqual({ type: "names", kind: "App" });
    expect(source(["token", "revoke"])).toEqual({ type: "tokens" });
    expect(source(["create", "x", "--template"])).toEqual({ type: "names", kind: "Template" });
    expect(source(["plan", "a"])).toBeUndefined();
    expect(source(["get", "apps", "--stack"])).toEqual({ type: "stacks" });
    expect(source(["describe", "stacks"])).toEqual({ type: "stacks" });
    expect(source(["stop"], "stack/")).toEqual({ type: "stacks", prefix: "stack/" });
    expect(source(["export"])).toEqual({ type: "stacks", prefix: "stack/" });
    expect(values(["get"])).toEqual(["apps", "models", "secrets", "templates", "stacks"]);
    expect(values(["completion"])).toEqual(["bash", "zsh", "fish"]);
  });
});

describe("completed names", () => {
  it("come from the server, with descriptions", async () => {
    await using api = await openTestApi();
    putApp(api.store, "hello");
    putApp(api.store, "world");
    const environment = { BERTH_URL: await api.listen(), BERTH_TOKEN: api.token("read") };
    const { output } = await runCommandLine(["__complete", "--current", "he", "--", "logs"], {
      environment,
    });
    expect(output).toBe("hello\tpending\n:none\n");
    const reference = await runCommandLine(["__complete", "--current", "app/", "--", "get"], {
      environment,
    });
    expect(reference.output).toBe("app/hello\tpending\napp/world\tpending\n:none\n");
  });

  it("are not offered without a server, and no message is printed", async () => {
    const environment = { BERTH_URL: "http://127.0.0.1:9" };
    const result = await runCommandLine(["__complete", "--current", "", "--", "logs"], {
      environment,
    });
    expect(result).toEqual({ code: 0, output: ":none\n", errors: "" });
  });
});

describe("the completion script in bash", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "berth-bash-"));
    writeFileSync(join(folder, "completion.bash"), completionScripts.bash);
    writeFileSync(join(folder, "spec file.yaml"), "");
    // Writes a substitute for the built command that records the calls of the completion script and answers like
    // berth.
    const answers = [
      "#!/bin/bash",
      'printf "%s|" "$@" > "$BERTH_ASKED"',
      'case "$*" in',
      '  *"--current he -- logs"*) printf "hello\\trunning\\nhelper\\tstopped\\n:none\\n" ;;',
      '  *"-- apply -f"*) printf ":files\\n" ;;',
      '  *) printf ":none\\n" ;;',
      "esac",
    ];
    writeFileSync(join(folder, "berth"), `${answers.join("\n")}\n`);
    chmodSync(join(folder, "berth"), 0o755);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Returns the completions that readline receives for these words. The last word is under the cursor. */
  const tab = (words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const script = `source completion.bash; COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _berth; printf '%s\\n' "\${COMPREPLY[@]}"; cat "$BERTH_ASKED" >&2`;
    const { stdout, stderr, status } = spawnSync("bash", ["--norc", "-c", script], {
      cwd: folder,
      encoding: "utf8",
      env: { PATH: `${folder}:/usr/bin:/bin`, BERTH_ASKED: join(folder, "asked") },
    });
    expect(status).toBe(0);
    return { replies: stdout.split("\n").filter(Boolean), asked: stderr };
  };

  it("registers itself", () => {
    const { stdout, status } = spawnSync(
      "bash",
      ["--norc", "-c", "source completion.bash; complete -p berth"],
      {
        cwd: folder,
        encoding: "utf8",
      },
    );
    expect(status).toBe(0);
    expect(stdout).toBe("complete -F _berth berth\n");
  });

  it("completes names, without their descriptions", () => {
    const { replies, asked } = tab(["berth", "logs", "he"]);
    expect(replies).toEqual(["hello", "helper"]);
    expect(asked).toBe("__complete|--current|he|--|logs|");
  });

  it("completes files, including names with blanks", () => {
    expect(tab(["berth", "apply", "-f", "spec"]).replies).toEqual(["spec file.yaml"]);
  });

  it("joins --flag=value again, which readline splits", () => {
    expect(tab(["berth", "get", "--output", "=", "js"]).asked).toBe(
      "__complete|--current|js|--|get|--output|",
    );
    expect(tab(["berth", "get", "--output", "="]).asked).toBe(
      "__complete|--current||--|get|--output|",
    );
  });
});
