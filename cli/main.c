/* main.c: finds the sub-command and hands over. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_command *const commands[] = {
    &cli_command_run,     &cli_command_bench,   &cli_command_check, &cli_command_inspect,
    &cli_command_explain, &cli_command_compile, &cli_command_cache, &cli_command_device,
};

static void print_usage(FILE *out) {
  fprintf(out,
          "lawson %s: compiles ONNX models into fused kernels and runs them on GPUs and CPUs\n\n"
          "usage: lawson COMMAND [options] ...\n\n",
          lw_version());
  for (size_t i = 0; i < CLI_COUNT(commands); i++) {
    fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
  }
  fprintf(out,
          "  %-9s the options of a command, with examples\n\n"
          "first steps:\n"
          "  lawson inspect net.onnx       what is in the model, and what lawson cannot do of it\n"
          "  lawson run net.onnx --check   run on random inputs, compare with the interpreter\n"
          "  lawson bench net.onnx --compare   time it fused and unfused\n",
          "help");
}

static const cli_command *find_command(const char *name) {
  for (size_t i = 0; i < CLI_COUNT(commands); i++) {
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name) {
  const char *names[CLI_COUNT(commands)];
  for (size_t i = 0; i < CLI_COUNT(commands); i++) names[i] = commands[i]->name;
  const char *near = cli_nearest(name, names, CLI_COUNT(names));
  if (near != NULL) {
    return cli_fail(LW_STATUS_USAGE, "there is no command '%s'; did you mean '%s'?", name, near);
  }
  return cli_fail(LW_STATUS_USAGE, "there is no command '%s'; 'lawson --help' lists them", name);
}

static int run_help(int argc, char **argv) {
  if (argc < 2) {
    print_usage(stdout);
    return 0;
  }
  const cli_command *command = find_command(argv[1]);
  if (command == NULL) return unknown_command(argv[1]);
  cli_print_help(command, stdout);
  return 0;
}

static int run_command(const cli_command *command, int argc, char **argv) {
  cli_args args;
  int code = 0;
  if (cli_parse(command, argc, argv, &args, &code)) code = command->run(&args);
  cli_args_deinit(&args);
  return code;
}

static int dispatch(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "";
  if (word[0] == '\0') {
    print_usage(stderr);
    return LW_STATUS_USAGE;
  }
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
    printf("lawson %s\n", lw_version());
    return 0;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return run_help(1, argv);
  if (strcmp(word, "help") == 0) return run_help(argc - 1, argv + 1);
  const cli_command *command = find_command(word);
  if (command == NULL) return unknown_command(word);
  return run_command(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
  int code = dispatch(argc, argv);
  /* A full disk or a closed pipe must not look like success. */
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) {
    code = cli_fail(LW_STATUS_USAGE, "cannot write to the standard output");
  }
  return code;
}
