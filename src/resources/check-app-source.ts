import type { GitSource } from "./app-source-spec.ts";
import type { AppSpec } from "./app-spec.ts";
import { findImageProblem, type IssueList, isInsidePath } from "./field-checks.ts";

type AddIssue = IssueList["add"];

/** Checks the image, or the source and its build options. */
export function checkAppSource(spec: AppSpec, add: AddIssue): void {
  if (spec.image !== undefined && spec.source !== undefined) {
    add(["spec", "source"], "set image or source, not both");
  }
  const problem = spec.image === undefined ? undefined : findImageProblem(spec.image);
  if (problem !== undefined) add(["spec", "image"], `"${spec.image}" ${problem}`);
  const git = spec.source && "git" in spec.source ? spec.source.git : undefined;
  if (git) checkGit(git, add);
  if (spec.source && "empty" in spec.source && spec.build?.inline === undefined)
    add(["spec", "source", "empty"], "needs build.inline: a Dockerfile, since there are no files");
  if (spec.build) checkBuild(spec, git, add);
}

function checkGit(git: GitSource, add: AddIssue): void {
  const at = ["spec", "source", "git"];
  const problem = findGitUrlProblem(git.url);
  if (problem !== undefined) add([...at, "url"], problem);
  // A leading hyphen is refused, because a program could parse such a text as an option.
  if (git.ref !== undefined && !/^[^-\s]\S*$/.test(git.ref)) {
    add([...at, "ref"], "is not the name of a branch or tag, nor a commit");
  }
  for (const key of ["path", "dockerfile"] as const) {
    const value = git[key];
    if (value !== undefined && !isInsidePath(value)) {
      add([...at, key], "has to be a path inside the repository, without ..");
    }
  }
}

/** Returns the problem of a git URL as text. It never contains the URL, which may contain a password. */
function findGitUrlProblem(url: string): string | undefined {
  if (/[\s\p{Cc}]/u.test(url)) return "contains white space";
  if (/^[\w.-]+@[\w.[\]:-]+:[^/].*$/.test(url) && !url.includes("://")) return undefined;
  const parsed = URL.parse(url);
  if (!/^(https?|ssh):\/\//.test(url) || !parsed) {
    return "is not the URL of a repository: write https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH";
  }
  const { protocol, username, password } = parsed;
  // A user name is refused too, because users often put a token into it.
  if (password !== "" || (username !== "" && protocol !== "ssh:")) {
    return "contains a user or a password, which would be readable: put them into a Secret and name it in credential";
  }
  return undefined;
}

function checkBuild(spec: AppSpec, git: GitSource | undefined, add: AddIssue): void {
  const at = ["spec", "build"];
  const build = spec.build ?? {};
  if (spec.source === undefined) {
    add(at, "configures the build of source, but there is no source: set source, or remove build");
  }
  if (build.dockerfile !== undefined) {
    if (!isInsidePath(build.dockerfile)) {
      add([...at, "dockerfile"], "has to be a path inside the source, without ..");
    }
    if (git?.dockerfile !== undefined) {
      add([...at, "dockerfile"], "set build.dockerfile or source.git.dockerfile, not both");
    }
  }
  if (build.inline !== undefined) {
    for (const key of ["dockerfile", "language", "baseImage"] as const)
      if (build[key] !== undefined)
        add([...at, key], "not with build.inline, which is the Dockerfile");
    if (git?.dockerfile !== undefined)
      add(
        ["spec", "source", "git", "dockerfile"],
        "not with build.inline, which is the Dockerfile",
      );
    if (build.inline.includes("\0")) add([...at, "inline"], "contains a NUL character");
  }
  const hasDockerfile = build.dockerfile !== undefined || git?.dockerfile !== undefined;
  for (const key of ["language", "baseImage"] as const) {
    if (hasDockerfile && build[key] !== undefined) {
      add([...at, key], "is for a generated Dockerfile, and dockerfile names one: set one of them");
    }
  }
  const problem = build.baseImage === undefined ? undefined : findImageProblem(build.baseImage);
  if (problem !== undefined) add([...at, "baseImage"], `"${build.baseImage}" ${problem}`);
  for (const [name, value] of Object.entries(build.args ?? {})) {
    if (value.includes("\0")) add([...at, "args", name], "contains a NUL character");
  }
}
