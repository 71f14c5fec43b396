import { describe, expect, test } from "vitest";
import { InvalidSpecError } from "../../../src/base/errors.ts";
import type { Manifest } from "../../../src/resources/kinds.ts";
import { generateRandomText, getSecretName } from "../../../src/resources/template-parameters.ts";
import { renderTemplate } from "../../../src/resources/template-render.ts";
import type { TemplateParameter, TemplateSpec } from "../../../src/resources/template-spec.ts";
import { requireManifest } from "../../support/find-manifest.ts";

const random = (length: number) => "r".repeat(length);

function template(
  fields: Record<string, unknown>,
  parameters: TemplateParameter[] = [],
  companions?: TemplateSpec["companions"],
): TemplateSpec {
  return {
    title: "T",
    description: "d",
    category: "test",
    parameters,
    app: { image: "img:1", ...fields },
    ...(companions ? { companions } : {}),
  };
}

function render(spec: TemplateSpec, parameters: Record<string, unknown> = {}, name = "blog") {
  return renderTemplate(spec, { name, parameters, random }).manifests;
}

function app(manifests: readonly Manifest[], name = "blog") {
  return requireManifest(manifests, "App", name).spec;
}

function secret(manifests: readonly Manifest[], name: string) {
  return requireManifest(manifests, "Secret", name).spec.data;
}

function problem(run: () => unknown): InvalidSpecError {
  try {
    run();
  } catch (error) {
    if (error instanceof InvalidSpecError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("the substitution in a template", () => {
  test("replaces a placeholder by a value of the parameter's type if it is the whole string, and by text inside a string", () => {
    const spec = template(
      {
        port: "${port}",
        command: ["--port=${port}", "${debug}", "$${port}", "cost $5", "${name}!"],
      },
      [
        { name: "port", default: 8080 },
        { name: "debug", default: "on" },
      ],
    );
    expect(app(render(spec))).toMatchObject({
      port: 8080,
      command: ["--port=8080", "on", "${port}", "cost $5", "blog!"],
    });
    expect(app(render(spec, { port: "81" }))).toMatchObject({ port: 81 });
  });

  test("does not scan replaced text again", () => {
    const spec = template({ env: { A: "${text}", B: "x${text}" } }, [{ name: "text" }]);
    expect(app(render(spec, { text: "${name} $${" })).env).toEqual({
      A: "${name} $${",
      B: "x${name} $${",
    });
  });

  test("omits a field that consists of a parameter without a value, and inserts nothing inside a text", () => {
    const spec = template(
      {
        port: 80,
        domain: "${domain}",
        command: ["a", "${domain}"],
        env: { D: "${domain}", U: "[${domain}]" },
      },
      [{ name: "domain" }],
    );
    const absent = { image: "img:1", port: 80, command: ["a"], env: { U: "[]" } };
    expect(app(render(spec))).toEqual(absent);
    expect(app(render(spec, { domain: "" }))).toEqual(absent);
    expect(app(render(spec, { domain: null }))).toEqual(absent);
    expect(app(render(spec, { domain: "a.example.org" }))).toMatchObject({
      domain: "a.example.org",
      env: { D: "a.example.org", U: "[a.example.org]" },
    });
  });

  test("keeps the type of booleans", () => {
    const spec = template({ running: "${on}" }, [{ name: "on", default: true }]);
    expect(app(render(spec)).running).toBe(true);
    expect(app(render(spec, { on: "false" })).running).toBe(false);
    expect(problem(() => render(spec, { on: "yes" })).message).toContain("must be true or false");
  });

  test.each([
    ["${porr}", '"${porr}" names no parameter of the template; did you mean "port"?'],
    ["${port", '"${" is not closed'],
    ["${PORT:-80}", '"${PORT:-80}" is not the name of a parameter; write "$${PORT:-80}"'],
    ["${}", "is not the name of a parameter"],
  ])("refuses %s with an error that names the field", (text, message) => {
    const error = problem(() => render(template({ command: ["x", text] }, [{ name: "port" }])));
    expect(error.message).toContain(message);
    expect(error.issues[0]?.path).toBe("/app/command/1");
  });
});

describe("parameters of a template", () => {
  const spec = template({ env: { A: "${title}", B: "${size}" } }, [
    { name: "title", required: true, description: "shown on top" },
    { name: "size", default: 5, pattern: "^[0-9]+$" },
  ]);

  test("a pattern that takes too long is stopped, and its parameter is named", () => {
    const slow = template({ env: { A: "${word}" } }, [{ name: "word", pattern: "^(a+)+$" }]);
    const error = problem(() => render(slow, { word: `${"a".repeat(50)}!` }));
    expect(error.issues).toEqual([
      {
        path: "/parameters/word",
        message: 'the pattern of the parameter "word" takes too long to check the value',
      },
    ]);
    expect(app(render(slow, { word: "aaa" })).env).toEqual({ A: "aaa" });
  });

  test("all problems are reported together", () => {
    const error = problem(() => render(spec, { titel: "x", size: "big" }));
    expect(error.issues).toEqual([
      { path: "/parameters", message: 'there is no parameter "titel"; did you mean "title"?' },
      { path: "/parameters/title", message: 'the parameter "title" is required (shown on top)' },
      {
        path: "/parameters/size",
        message: 'the parameter "size" must match ^[0-9]+$; "big" does not',
      },
    ]);
  });

  test("the error for an unknown parameter lists all known names if no known name is similar", () => {
    expect(problem(() => render(spec, { title: "x", zzzzzz: 1 })).message).toContain(
      "known are title, size",
    );
    expect(problem(() => render(template({}), { a: 1 })).message).toContain(
      "the template has none",
    );
  });

  test.each([[{}], [[1]], [() => {}]])("%j is not accepted as a parameter's value", (value) => {
    expect(problem(() => render(spec, { title: value })).message).toContain(
      "must be text, a number, true or false",
    );
  });

  test("an invalid number, an empty required value and a huge value are refused", () => {
    expect(
      problem(() => render(template({ port: "${p}" }, [{ name: "p", default: 1 }]), { p: "1x" }))
        .message,
    ).toContain("must be a number");
    expect(problem(() => render(spec, { title: "" })).message).toContain("is required");
    expect(problem(() => render(spec, { title: "x".repeat(9000) })).message).toContain(
      "longer than",
    );
  });

  test("names that every object inherits are not parameters", () => {
    const odd = template({ env: { A: "${constructor}" } }, [{ name: "constructor" }]);
    expect(app(render(odd)).env).toEqual({});
    expect(problem(() => render(template({ command: ["${constructor}"] }))).message).toContain(
      "names no parameter",
    );
  });
});

describe("secrets in a template", () => {
  const password: TemplateParameter = { name: "password", secret: true, generate: 12 };

  test("an environment variable that consists of a secret parameter refers to its Secret", () => {
    const manifests = render(template({ env: { PASSWORD: "${password}", USER: "u" } }, [password]));
    expect(app(manifests).env).toEqual({
      PASSWORD: { secret: "blog-password", key: "value" },
      USER: "u",
    });
    expect(secret(manifests, "blog-password")).toEqual({ value: "rrrrrrrrrrrr" });
    expect(manifests.map((m) => m.kind)).toEqual(["Secret", "App"]);
  });

  test("a text that contains a secret is stored as a whole, with a separate key for each app and variable", () => {
    const manifests = render(
      template(
        {
          env: { DATABASE_URL: "pg://u:${password}@${name}-db/${database}", PLAIN: "${database}" },
        },
        [password, { name: "database", default: "main" }],
        [
          {
            suffix: "db",
            app: {
              image: "db:1",
              env: { PASSWORD: "${password}", DATABASE_URL: "self:${password}" },
            },
          },
        ],
      ),
      { password: "s3cret" },
    );
    expect(secret(manifests, "blog-password")).toEqual({
      value: "s3cret",
      "blog.DATABASE_URL": "pg://u:s3cret@blog-db/main",
      "blog-db.DATABASE_URL": "self:s3cret",
    });
    expect(app(manifests).env).toEqual({
      DATABASE_URL: { secret: "blog-password", key: "blog.DATABASE_URL" },
      PLAIN: "main",
    });
    expect(app(manifests, "blog-db").env?.["PASSWORD"]).toEqual({
      secret: "blog-password",
      key: "value",
    });
    expect(JSON.stringify(manifests.filter((m) => m.kind === "App"))).not.toContain("s3cret");
    expect(manifests.map((m) => m.metadata.name)).toEqual(["blog-password", "blog-db", "blog"]);
  });

  test("a text with two secret parameters is stored in the Secret of the first parameter", () => {
    const manifests = render(
      template({ env: { BOTH: "${one}:${two}" } }, [
        { name: "two", secret: true, default: "2" },
        { name: "one", secret: true, default: "1" },
      ]),
    );
    expect(app(manifests).env).toEqual({ BOTH: { secret: "blog-one", key: "blog.BOTH" } });
    expect(secret(manifests, "blog-one")).toEqual({ value: "1", "blog.BOTH": "1:2" });
    expect(secret(manifests, "blog-two")).toEqual({ value: "2" });
  });

  test("a secret parameter outside of env is refused", () => {
    const error = problem(() => render(template({ command: ["-p", "${password}"] }, [password])));
    expect(error.message).toContain('the secret parameter "password" is only allowed in env');
    expect(error.issues[0]?.path).toBe("/app/command/1");
  });

  test("an optional secret without a value creates no Secret and no variable", () => {
    const manifests = render(
      template({ env: { KEY: "${key}", A: "b" } }, [{ name: "key", secret: true }]),
    );
    expect(manifests).toHaveLength(1);
    expect(app(manifests).env).toEqual({ A: "b" });
  });

  test("no message contains the value of a secret", () => {
    const error = problem(() =>
      render(template({ env: { P: "${password}" } }, [{ ...password, pattern: "^[a-z]+$" }]), {
        password: "HUNTER2",
      }),
    );
    expect(error.message).toContain("must match ^[a-z]+$");
    expect(JSON.stringify([error.message, error.details, error.hint])).not.toContain("HUNTER2");
  });

  test("two parameters that would share a Secret are refused", () => {
    const clash = template({ env: { A: "${dbUrl}", B: "${db_url}" } }, [
      { name: "dbUrl", secret: true, default: "a" },
      { name: "db_url", secret: true, default: "b" },
    ]);
    expect(problem(() => render(clash)).message).toContain("would share one Secret");
  });

  test.each([
    ["password", "blog-password"],
    ["adminPassword", "blog-admin-password"],
    ["db_root_password_", "blog-db-root-password"],
    ["s3Key", "blog-s3-key"],
  ])("the parameter %s is stored in the Secret %s", (parameter, name) => {
    expect(getSecretName("blog", parameter)).toBe(name);
  });
});

describe("the names of the resources of a template", () => {
  const companion = [{ suffix: "database", app: { image: "db:1" } }];

  test("are valid, and each manifest has a label with the name of the main app", () => {
    const manifests = render(template({ dependsOn: ["${name}-database"] }, [], companion));
    expect(manifests.map((m) => [m.kind, m.metadata])).toEqual([
      ["App", { name: "blog-database", labels: { "berth.dev/part-of": "blog" } }],
      ["App", { name: "blog", labels: { "berth.dev/part-of": "blog" } }],
    ]);
  });

  test("are refused if the name of a companion app is too long, and the error states by how much", () => {
    const error = problem(() => render(template({}, [], companion), {}, "x".repeat(60)));
    expect(error.message).toContain("69 characters");
    expect(error.message).toContain("6 shorter");
  });

  test("are refused if the name of a Secret is too long", () => {
    const spec = template({ env: { A: "${password}" } }, [
      { name: "password", secret: true, generate: 8 },
    ]);
    expect(problem(() => render(spec, {}, "x".repeat(55))).message).toContain('the Secret "xxx');
    expect(render(spec, {}, "x".repeat(54))).toHaveLength(2);
  });

  test.each(["", "Blog", "a b", "-a", "a/../b", "x".repeat(64)])(
    "%j is not accepted as a name",
    (name) => {
      expect(problem(() => render(template({}), {}, name)).issues[0]?.path).toBe("/name");
    },
  );

  test("are refused if two apps would have the same name", () => {
    const twice = [...companion, ...companion];
    expect(problem(() => render(template({}, [], twice))).message).toContain("makes two apps");
  });
});

test("if the parameters make an App invalid, the template is refused, and the error names the field", () => {
  const spec = template({ port: "${port}" }, [{ name: "port", default: 80 }]);
  const error = problem(() => render(spec, { port: 70_000 }));
  expect(error.message).toContain('App "blog" is not valid: spec.port');
});

test("generateRandomText returns different letters and digits each time, in the given length", () => {
  const texts = new Set(Array.from({ length: 50 }, () => generateRandomText(24)));
  expect(texts.size).toBe(50);
  for (const text of texts) expect(text).toMatch(/^[A-Za-z0-9]{24}$/);
});
