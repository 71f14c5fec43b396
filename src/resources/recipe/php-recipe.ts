import { satisfies, validRange } from "semver";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import {
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import { createNodeAssets } from "./node-assets.ts";
import { getFields, getText, isParsedFields, type ParsedFields } from "./parsed-fields.ts";
import { findPhpKind, type PhpKind } from "./php-kind.ts";
import type { SourceReader } from "./source-reader.ts";
import { findToolVersion } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8080;
/** Releases of PHP, in order of preference. */
const PHP_MINORS = ["8.4", "8.5", "8.3", "8.2", "8.1", "8.0", "7.4"];
/** The folder from which the image's Apache serves, and which its configuration allows `.htaccess` files. */
const APP_DIR = "/var/www/html";
/** Extensions that the image php:*-apache contains. */
const BUILT_IN = new Set(
  (
    "core ctype curl date dom fileinfo filter ftp hash iconv json libxml mbstring mysqlnd openssl pcre pdo pdo_sqlite " +
    "phar posix random readline reflection session simplexml sodium spl sqlite3 standard tokenizer xml xmlreader " +
    "xmlwriter zlib"
  ).split(" "),
);

/**
 * Creates the Dockerfile for PHP, which Apache serves with the module of PHP. Composer installs the packages of
 * composer.json, and a build script of package.json makes the assets.
 */
export async function createPhpDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const composer = await readComposer(reader);
  const kind = await findPhpKind(reader, composer?.packages ?? new Set());
  if (kind === undefined)
    throw undecidedSourceError(
      "there is neither a composer.json nor an index.php, in the source or in public/ or web/",
      "add one",
    );
  const php = await choosePhpMinor(reader, composer?.fields);
  const extensions = [...new Set([...kind.extensions, ...(composer?.extensions ?? [])])]
    .filter((name) => !BUILT_IN.has(name))
    .toSorted();
  const assets = composer === undefined ? undefined : await createNodeAssets(reader);
  const builtAssets = assets !== undefined && assets.build.length > 0 ? assets : undefined;
  const decidingFiles = [composer === undefined ? kind.decidingFile : "composer.json", ...php.from];
  const description = `${kind.name === "PHP" ? "" : `${kind.name} on `}PHP ${php.minor} with Apache`;
  const text = formatDockerfile(description, decidingFiles, [
    `FROM ${options.baseImage ?? `php:${php.minor}-apache`} AS base`,
    ...createExtensionLines(extensions),
    // Apache replaces ${PORT} by the environment variable when it starts.
    `RUN sed -ri 's/^Listen 80$/Listen \${PORT}/' /etc/apache2/ports.conf \\`,
    `  && sed -ri 's#<VirtualHost \\*:80>#<VirtualHost *:\${PORT}>#; s#(DocumentRoot) .*#\\1 ${documentRoot(kind)}#' /etc/apache2/sites-available/000-default.conf \\`,
    ...createPrivateFileLines(),
    "  && a2enmod rewrite headers expires",
    `WORKDIR ${APP_DIR}`,
    `ENV PORT=${PORT} ${kind.environment.join(" ")}`.trimEnd(),
    "",
    ...(composer === undefined
      ? []
      : [
          "FROM base AS build",
          "RUN apt-get update && apt-get install -y --no-install-recommends git unzip && rm -rf /var/lib/apt/lists/*",
          "COPY --from=composer:2 /usr/bin/composer /usr/local/bin/composer",
          ...(builtAssets?.setup ?? []),
          "ENV COMPOSER_ALLOW_SUPERUSER=1",
          `COPY ${["composer.json", "composer.lock"].filter((file) => reader.has(file)).join(" ")} ./`,
          "RUN composer install --no-dev --no-scripts --no-autoloader --prefer-dist --no-interaction --no-progress",
          "COPY . .",
          "RUN composer install --no-dev --optimize-autoloader --no-interaction --no-progress",
          ...(builtAssets === undefined
            ? []
            : [...builtAssets.install, ...builtAssets.build, "RUN rm -rf node_modules"]),
          "",
        ]),
    "FROM base",
    composer === undefined
      ? `COPY --chown=${USER} . ${APP_DIR}`
      : `COPY --from=build --chown=${USER} ${APP_DIR} ${APP_DIR}`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    'CMD ["apache2-foreground"]',
  ]);
  return { description, decidingFiles, port: PORT, text };
}

function documentRoot(kind: PhpKind): string {
  return kind.folder === "" ? APP_DIR : `${APP_DIR}/${kind.folder}`;
}

/** Extensions with the libraries that they need come from the installer that PHP's image recommends for them. */
function createExtensionLines(extensions: readonly string[]): readonly string[] {
  return extensions.length === 0
    ? []
    : [
        "COPY --from=mlocati/php-extension-installer:2 /usr/bin/install-php-extensions /usr/local/bin/",
        `RUN install-php-extensions ${extensions.join(" ")}`,
      ];
}

/** Hidden files, and files that only a build needs, are not served. */
function createPrivateFileLines(): readonly string[] {
  const lines = [
    `<FilesMatch "^(\\.(?!well-known)|composer\\.(json|lock)$|package(-lock)?\\.json$|Dockerfile$|Procfile$)">`,
    "Require all denied",
    "</FilesMatch>",
    `<DirectoryMatch "/\\.(?!well-known)">`,
    "Require all denied",
    "</DirectoryMatch>",
  ];
  const words = lines.map((line) => `'${line}'`).join(" ");
  return [`  && printf '%s\\n' ${words} > /etc/apache2/conf-enabled/private-files.conf \\`];
}

interface Composer {
  readonly fields: ParsedFields;
  readonly packages: ReadonlySet<string>;
  /** The names of the extensions that composer.json requires, in lower case. */
  readonly extensions: readonly string[];
}

async function readComposer(reader: SourceReader): Promise<Composer | undefined> {
  const text = await reader.read("composer.json");
  if (text === undefined) return undefined;
  let why = "it is not a JSON object";
  try {
    const fields: unknown = JSON.parse(text.replace(/^\u{feff}/u, ""));
    if (isParsedFields(fields)) {
      const packages = Object.keys(getFields(fields, "require")).map((name) => name.toLowerCase());
      const extensions = packages
        .map((name) => /^ext-([a-z0-9_]+)$/.exec(name)?.[1])
        .filter((name) => name !== undefined);
      return { fields, packages: new Set(packages), extensions };
    }
  } catch (error) {
    why = getErrorMessage(error);
  }
  throw new BerthError("invalid_request", `composer.json cannot be read: ${why}`);
}

async function choosePhpMinor(
  reader: SourceReader,
  composer: ParsedFields | undefined,
): Promise<{ readonly minor: string; readonly from: readonly string[] }> {
  const asked = await findToolVersion(reader, ["php"], [".php-version"]);
  const minor = /^(\d+\.\d+)/.exec(asked?.version ?? "")?.[1];
  if (asked !== undefined && minor !== undefined) return { minor, from: [asked.from] };
  const written = getText(getFields(composer ?? {}, "require"), "php");
  // Composer separates alternatives by one or two bars, and conditions by a comma or a space.
  const range = validRange(
    (written ?? "*").replaceAll(/\s*\|\|?\s*/g, " || ").replaceAll(",", " "),
  );
  const fitting = PHP_MINORS.find((it) => range === null || satisfies(`${it}.99`, range));
  return { minor: fitting ?? PHP_MINORS[0] ?? "8.4", from: [] };
}
