import type { SourceReader } from "./source-reader.ts";

/** A framework or a kind of PHP source, with what it needs of the image. */
export interface PhpKind {
  readonly name: string;
  /** The file or package that shows this kind. */
  readonly decidingFile: string;
  /** The folder that the web server serves; `""` is the source itself. */
  readonly folder: string;
  /** Extensions that the framework needs, or that most of its apps use. */
  readonly extensions: readonly string[];
  readonly environment: readonly string[];
}

const DATABASES = ["pdo_mysql", "pdo_pgsql"];

/** Returns the kind of a PHP source; undefined if it has neither packages nor an index.php. */
export async function findPhpKind(
  reader: SourceReader,
  packages: ReadonlySet<string>,
): Promise<PhpKind | undefined> {
  const front = ["public", "web", ""].find((folder) =>
    reader.has(folder === "" ? "index.php" : `${folder}/index.php`),
  );
  const folder = front ?? "";
  if (reader.has("artisan") || packages.has("laravel/framework"))
    return {
      name: "Laravel",
      decidingFile: "artisan",
      folder: "public",
      extensions: [...DATABASES, "bcmath", "intl", "opcache", "pcntl", "zip"],
      environment: ["APP_ENV=production", "LOG_CHANNEL=stderr"],
    };
  if (packages.has("symfony/framework-bundle"))
    return {
      name: "Symfony",
      decidingFile: "composer.json",
      folder: "public",
      extensions: [...DATABASES, "intl", "opcache", "zip"],
      environment: ["APP_ENV=prod"],
    };
  if (reader.has("wp-includes/version.php") || reader.has("wp-config-sample.php"))
    return {
      name: "WordPress",
      decidingFile: "wp-includes/version.php",
      folder: "",
      extensions: ["exif", "gd", "intl", "mysqli", "opcache", "zip"],
      environment: [],
    };
  const decidingFile = folder === "" ? "index.php" : `${folder}/index.php`;
  if (front === undefined) return undefined;
  return {
    name: "PHP",
    decidingFile,
    folder,
    extensions: await findDatabaseExtensions(reader, folder),
    environment: [],
  };
}

/** The names that a program without a framework uses, with the extension that provides them. */
const databaseWords: readonly (readonly [RegExp, string])[] = [
  [/\bmysqli(_connect)?\s*\(/, "mysqli"],
  [/["']mysql:/, "pdo_mysql"],
  [/["']pgsql:/, "pdo_pgsql"],
  [/\bpg_connect\s*\(/, "pgsql"],
];
/** The number of files that are searched for the names of databases. */
const FILES_MAX = 50;

async function findDatabaseExtensions(
  reader: SourceReader,
  front: string,
): Promise<readonly string[]> {
  const folders = [...new Set(["", front, "config", "includes", "inc", "lib", "src"])];
  const files = folders
    .flatMap((folder) =>
      reader
        .list(folder)
        .filter((name) => name.endsWith(".php"))
        .map((name) => (folder === "" ? name : `${folder}/${name}`)),
    )
    .slice(0, FILES_MAX);
  const found = new Set<string>();
  for (const file of files) {
    const text = (await reader.read(file)) ?? "";
    for (const [word, extension] of databaseWords) if (word.test(text)) found.add(extension);
  }
  return [...found];
}
