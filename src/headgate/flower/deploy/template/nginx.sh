$environment
headgate flower certificates "$certificates" || exit
exec nginx -e stderr -c "$folder/nginx.conf" "$$@"
