# The commands that need LibTorch, and dimred-train, which `dimred` executes for them.
dimred_room(trainer_commands
  ONLY ranks.cpp train_run.cpp stage1_command.cpp stage2_command.cpp evaluate_command.cpp saved_weights.cpp export_command.cpp predict_command.cpp verify_command.cpp
          landscape_command.cpp model_command.cpp learning_rate_command.cpp
  LINKS commands pca_command models distributed stage1 stage2 engine run serving pca)
dimred_use_torch(dimred_trainer_commands)
add_executable(dimred-train trainer_main.cpp)
target_link_libraries(dimred-train PRIVATE dimred_trainer_commands dimred_flags)
