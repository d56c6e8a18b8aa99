export PATH="$$PATH:/usr/sbin"
exec nginx -e stderr -c "$folder/nginx.conf" "$$@"
